// SPDX-License-Identifier: Apache-2.0
#include "world/gpu_world.h"

#include <numeric>

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

void add_tensor(Request& request, const DeviceTensor<float>& tensor) {
  request.tensors.push_back({tensor.data(),
                             tensor.data(),
                             DataType::kFloat32,
                             {static_cast<std::int64_t>(tensor.size())},
                             0});
}

}  // namespace

Gpus& gpus_of_double() {
  static Gpus* const gpus = find_gpus(GpuDriverSettings::from(Environment::of_process())).release();
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

GpuTensors gpu_tensors(int rank, const std::vector<std::size_t>& sizes) {
  GpuTensors tensors;
  for (const std::size_t size : sizes) {
    const auto& tensor = tensors.emplace_back(GpuWorld::gpu(rank), size);
    std::iota(tensor.begin(), tensor.end(), static_cast<float>(rank));
  }
  return tensors;
}

Request gpu_request(std::string name, int rank, const DeviceTensor<float>& tensor,
                    StreamHandle stream, Allreduce operation) {
  Request request = gpu_request(std::move(name), rank, GpuTensors(), operation);
  request.stream = stream;
  add_tensor(request, tensor);
  return request;
}

Request gpu_request(std::string name, int rank, const GpuTensors& tensors,
                    const Operation& operation) {
  Request request;
  request.name = std::move(name);
  request.operation = operation;
  request.device = gpu_of(rank);
  for (const DeviceTensor<float>& tensor : tensors) add_tensor(request, tensor);
  return request;
}

}  // namespace hvd
