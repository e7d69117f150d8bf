// SPDX-License-Identifier: Apache-2.0
// The NCCL plane from submission to completion, over doubles of the driver and of NCCL, whose
// device memory is host memory.
#include <gtest/gtest.h>

#include "doubles/nccl/double_nccl.h"
#include "world/gpu_floats.h"

namespace hvd {
namespace {

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

TEST_P(NcclWorld, BroadcastsAndReduces) {
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
  });
}

TEST_P(NcclWorld, AddsOrthogonalGradientsAndAveragesEqualOnes) {
  World world(GetParam(), gpu_options());
  const auto size = static_cast<std::size_t>(world.size());
  world.run([size](int rank, Engine& engine) {
    auto tensors = tensors_of(rank, {size, 3000});
    std::iota(tensors[1]->begin(), tensors[1]->end(), 0.0F);
    auto& orthogonal = *tensors[0];
    for (std::size_t i = 0; i < size; ++i) {
      orthogonal[i] = i == static_cast<std::size_t>(rank) ? static_cast<float>(i + 1) : 0;
    }
    const Status status =
        run_request(engine, request_of("a", Allreduce{.op = ReduceOp::kAdasum}, tensors));
    ASSERT_TRUE(status.is_ok()) << status.message();
    for (std::size_t i = 0; i < size; ++i) EXPECT_NEAR(orthogonal[i], i + 1, 1e-4);
    for (std::size_t i = 0; i < 3000; ++i) ASSERT_NEAR((*tensors[1])[i], i, 1e-2);
  });
  EXPECT_EQ(double_nccl_calls("ncclSend") > 0, size > 1);
}

TEST_P(NcclWorld, GoesOnWithoutARankThatHasJoinedWhateverItPacks) {
  World world(GetParam(), gpu_options());
  const int size = world.size();
  world.run([size](int rank, Engine& engine) {
    auto first = tensors_of(rank, {10, 20});
    ASSERT_TRUE(run_request(engine, request_of("first", Allreduce{}, first)).is_ok());
    const int last = size - 1;
    for (int step = 0; rank != last && step < 2; ++step) {
      // As they are, packed beyond the bucket there is, and both.
      for (const auto& sizes :
           {std::vector<std::size_t>{2'000'000}, std::vector<std::size_t>(12, 200'000),
            std::vector<std::size_t>{1, 2, 3'000'000}}) {
        auto tensors = tensors_of(rank, sizes);
        const std::string name = std::to_string(sizes.size());
        const Status status = run_request(engine, request_of(name, Allreduce{}, tensors));
        ASSERT_TRUE(status.is_ok()) << status.message();
        const float sum = static_cast<float>(last * (last - 1)) / 2;
        for (const auto& tensor : tensors) EXPECT_EQ((*tensor)[0], sum) << name;
      }
    }
    EXPECT_TRUE(engine.join(0, false, soon()).is_ok());
    auto again = tensors_of(rank, std::vector<std::size_t>(12, 250'000));
    const Status status = run_request(engine, request_of("again", Allreduce{}, again));
    EXPECT_TRUE(status.is_ok()) << status.message();
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, NcclWorld,
                         testing::Values(std::vector<int>{1}, std::vector<int>{2},
                                         std::vector<int>{3}, std::vector<int>{2, 2}));

}  // namespace
}  // namespace hvd
