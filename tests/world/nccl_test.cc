// SPDX-License-Identifier: Apache-2.0
// The NCCL plane from submission to completion, over doubles of the driver and of NCCL, whose
// device memory is host memory.
#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>

#include "doubles/nccl/double_nccl.h"
#include "world/world.h"

namespace hvd {
namespace {

Gpus& gpus() {
  static const std::unique_ptr<Gpus> found = find_gpus(Environment::of_process());
  return *found;
}

EngineOptions gpu_options() {
  EngineOptions options = World::quick_options();
  options.gpus = &gpus();
  return options;
}

/// Floats in the memory of the GPU of a rank.
class GpuFloats {
 public:
  GpuFloats(int rank, std::size_t count) : count_(count) {
    auto gpu = gpus().open({DeviceKind::kCuda, rank});
    EXPECT_TRUE(gpu.is_ok()) << gpu.status().message();
    gpu_ = gpu.value();
    data_ = static_cast<float*>(gpu_->allocate(count * sizeof(float)).value());
  }
  GpuFloats(const GpuFloats&) = delete;
  GpuFloats& operator=(const GpuFloats&) = delete;
  ~GpuFloats() { gpu_->deallocate(data_); }

  Device device() const { return gpu_->device(); }
  float* begin() { return data_; }
  float* end() { return data_ + count_; }
  float& operator[](std::size_t i) { return data_[i]; }
  std::size_t size() const { return count_; }

 private:
  Gpu* gpu_ = nullptr;
  float* data_ = nullptr;
  std::size_t count_;
};

Request request_of(std::string name, const Operation& operation,
                   std::vector<std::unique_ptr<GpuFloats>>& tensors) {
  Request request;
  request.name = std::move(name);
  request.operation = operation;
  request.device = tensors.front()->device();
  for (const auto& tensor : tensors) {
    request.tensors.push_back({tensor->begin(),
                               tensor->begin(),
                               DataType::kFloat32,
                               {static_cast<std::int64_t>(tensor->size())},
                               0});
  }
  return request;
}

std::vector<std::unique_ptr<GpuFloats>> tensors_of(int rank,
                                                   const std::vector<std::size_t>& sizes) {
  std::vector<std::unique_ptr<GpuFloats>> tensors;
  for (const std::size_t size : sizes) {
    auto& tensor = *tensors.emplace_back(std::make_unique<GpuFloats>(rank, size));
    std::iota(tensor.begin(), tensor.end(), static_cast<float>(rank));
  }
  return tensors;
}

class NcclWorld : public testing::TestWithParam<std::vector<int>> {
 protected:
  void TearDown() override {
    EXPECT_EQ(double_nccl_complaints(), 0) << double_nccl_last_complaint();
    double_nccl_reset();
  }
};

TEST_P(NcclWorld, AveragesSmallAndLargeTensorsStepAfterStep) {
  World world(GetParam(), gpu_options());
  const int size = world.size();
  world.run([size](int rank, Engine& engine) {
    for (int step = 0; step < 5; ++step) {
      auto tensors = tensors_of(rank, {1, 1000, 7, 500'000});
      const Status status =
          run_request(engine, request_of("step", Allreduce{.op = ReduceOp::kAverage}, tensors));
      ASSERT_TRUE(status.is_ok()) << status.message();
      for (const auto& tensor : tensors) {
        for (const std::size_t i : {std::size_t{0}, tensor->size() / 2, tensor->size() - 1}) {
          ASSERT_NEAR((*tensor)[i], static_cast<float>(i) + (static_cast<float>(size) - 1) / 2,
                      0.1);
        }
      }
    }
  });
  EXPECT_GT(double_nccl_calls("ncclAllReduce"), 0);
  EXPECT_GT(double_nccl_calls("ncclCommWindowRegister"), 0);
}

TEST_P(NcclWorld, MovesRowsOfAnyNumber) {
  World world(GetParam(), gpu_options());
  const int size = world.size();
  world.run([size](int rank, Engine& engine) {
    auto tensors = tensors_of(rank, {static_cast<std::size_t>(rank) * 3});
    Request request = request_of("gather", Allgather{}, tensors);
    request.tensors[0].output = nullptr;
    const auto handle = engine.submit(std::move(request));
    ASSERT_TRUE(handle.is_ok()) << handle.status().message();
    const Status status = engine.wait(handle.value(), soon());
    ASSERT_TRUE(status.is_ok()) << status.message();
    const auto gathered = engine.gathered(handle.value(), 0);
    ASSERT_TRUE(gathered.is_ok()) << gathered.status().message();
    const auto* floats = reinterpret_cast<const float*>(gathered.value()->begin());
    for (int from = 0; from < size; ++from) {
      for (int i = 0; i < from * 3; ++i) ASSERT_EQ(*floats++, static_cast<float>(from + i));
    }
    engine.release(handle.value());
  });
}

TEST_P(NcclWorld, BroadcastsAndReducesAndTakesWhatNcclLacksAnotherWay) {
  World world(GetParam(), gpu_options());
  const int size = world.size();
  world.run([size](int rank, Engine& engine) {
    auto sent = tensors_of(rank, {10, 20});
    Status status = run_request(engine, request_of("b", Broadcast{size - 1}, sent));
    ASSERT_TRUE(status.is_ok()) << status.message();
    EXPECT_EQ((*sent[1])[19], static_cast<float>(size - 1 + 19));
    auto reduced = tensors_of(rank, {10, 20});
    status = run_request(engine, request_of("r", Reduce{.root = 0, .op = ReduceOp::kMax}, reduced));
    ASSERT_TRUE(status.is_ok()) << status.message();
    EXPECT_EQ((*reduced[1])[19], static_cast<float>((rank == 0 ? size - 1 : rank) + 19));
    auto others = tensors_of(rank, {10});
    status = run_request(engine, request_of("a", Allreduce{.op = ReduceOp::kAdasum}, others));
    ASSERT_TRUE(status.is_ok()) << status.message();
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, NcclWorld,
                         testing::Values(std::vector<int>{1}, std::vector<int>{2},
                                         std::vector<int>{2, 2}));

}  // namespace
}  // namespace hvd
