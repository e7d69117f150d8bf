// SPDX-License-Identifier: Apache-2.0
#include "world/gpu_world.h"

namespace hvd {
namespace {

EngineOptions with_gpus(EngineOptions options) {
  options.gpus = &gpus_of_double();
  return options;
}

Device gpu_of(int rank) {
  const auto count = gpus_of_double().count();
  EXPECT_TRUE(count.is_ok()) << count.status().message();
  return {DeviceKind::kCuda, rank % count.value()};
}

}  // namespace

Gpus& gpus_of_double() {
  static Gpus* const gpus = find_gpus(Environment::of_process()).release();
  return *gpus;
}

GpuWorld::GpuWorld(std::vector<int> node_sizes, EngineOptions options)
    : World(std::move(node_sizes), with_gpus(std::move(options))) {}

EngineOptions GpuWorld::staged_options() {
  EngineOptions options = quick_options();
  options.backend = "staged";
  return options;
}

Gpu& GpuWorld::gpu(int rank) {
  const auto opened = gpus_of_double().open(gpu_of(rank));
  EXPECT_TRUE(opened.is_ok()) << opened.status().message();
  return *opened.value();
}

Request gpu_request(std::string name, int rank, const DeviceTensor<float>& tensor,
                    StreamHandle stream, Allreduce operation) {
  Request request;
  request.name = std::move(name);
  request.operation = operation;
  request.device = gpu_of(rank);
  request.stream = stream;
  request.tensors.push_back({tensor.data(),
                             tensor.data(),
                             DataType::kFloat32,
                             {static_cast<std::int64_t>(tensor.size())},
                             0});
  return request;
}

}  // namespace hvd
