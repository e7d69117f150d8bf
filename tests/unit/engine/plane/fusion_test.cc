// SPDX-License-Identifier: Apache-2.0
#include "engine/plane/fusion.h"

#include <gtest/gtest.h>

namespace hvd {
namespace {

Description described(DataType dtype, std::int64_t count, Operation operation = Allreduce{}) {
  Description description;
  description.operation = operation;
  description.tensors.push_back({dtype, 0, {count}});
  return description;
}

std::vector<std::vector<std::size_t>> fuse_all(const std::vector<Description>& list,
                                               std::size_t fusion_bytes) {
  std::vector<const Description*> pointers;
  for (const Description& description : list) pointers.push_back(&description);
  return fuse(pointers, fusion_bytes);
}

using Runs = std::vector<std::vector<std::size_t>>;

TEST(Fusion, JoinsWhatMayTravelTogether) {
  const auto f32 = described(DataType::kFloat32, 10);
  const auto i32 = described(DataType::kInt32, 10);
  const auto max = described(DataType::kFloat32, 10, Allreduce{ReduceOp::kMax, 1, 1});
  EXPECT_EQ(fuse_all({f32, i32, f32, max, i32}, 1'000), (Runs{{0, 2}, {1, 4}, {3}}));
}

TEST(Fusion, StartsANewRunAtTheThreshold) {
  const auto f32 = described(DataType::kFloat32, 10);
  EXPECT_EQ(fuse_all({f32, f32, f32}, 80), (Runs{{0, 1}, {2}}));
  EXPECT_EQ(fuse_all({f32, f32}, 0), (Runs{{0}, {1}})) << "a lone tensor always travels";
}

TEST(Fusion, ABarrierAndAMixedGroupTravelAlone) {
  Description barrier;
  barrier.operation = Barrier{};
  Description mixed = described(DataType::kFloat32, 1);
  mixed.tensors.push_back({DataType::kInt32, 0, {1}});
  const auto f32 = described(DataType::kFloat32, 1);
  EXPECT_EQ(fuse_all({barrier, mixed, barrier, f32, mixed}, 1'000),
            (Runs{{0}, {1}, {2}, {3}, {4}}));
}

TEST(Fusion, MakesOneBatchForEachElementType) {
  float a = 0;
  std::int32_t b = 0;
  auto pending = std::make_shared<PendingRequest>();
  pending->request.operation = Allreduce{};
  pending->request.tensors = {{&a, &a, DataType::kFloat32, {1}, 0},
                              {&b, &b, DataType::kInt32, {1}, 0},
                              {&a, &a, DataType::kFloat32, {}, 0}};
  const auto batches = make_batches({pending});
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_EQ(batches[0].batch.segments.size(), 2u);
  EXPECT_EQ(batches[1].batch.dtype, DataType::kInt32);
  EXPECT_EQ(pending->batches_left, 2);
}

TEST(Fusion, KeepsPrioritiesApart) {
  const auto usual = described(DataType::kFloat32, 10);
  auto urgent = usual;
  urgent.priority = 1;
  EXPECT_EQ(fuse_all({usual, urgent, usual, urgent}, 1'000), (Runs{{1, 3}, {0, 2}}))
      << "urgent first";
}

TEST(Fusion, HandsSplitsToTheBatchInElements) {
  float a[12] = {};
  auto pending = std::make_shared<PendingRequest>();
  pending->request.operation = Alltoall{};
  pending->request.tensors = {{a, nullptr, DataType::kFloat32, {4, 3}, 0, {1, 3}},
                              {a, nullptr, DataType::kFloat32, {}, 0, {0, 1}}};
  const auto batches = make_batches({pending});
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_EQ(batches[0].batch.segments[0].row_count, 3u);
  EXPECT_EQ(batches[0].batch.splits, (std::vector<std::size_t>{3, 9, 0, 1}));
  const std::size_t counts[] = {6, 3};
  ASSERT_TRUE(batches[0].batch.allocate(0, counts).is_ok());
  EXPECT_EQ(pending->gathered[0].shape, (std::vector<std::int64_t>{3, 3}));
  EXPECT_EQ(pending->gathered[0].rows, (std::vector<std::int64_t>{2, 1}));
}

TEST(Fusion, GivesMemoryOfTheCallerToRowsThatFit) {
  float input[2] = {};
  float output[6] = {};
  for (const std::size_t bytes : {sizeof(output), sizeof(output) - 1}) {
    auto pending = std::make_shared<PendingRequest>();
    pending->request.operation = Allgather{};
    pending->request.tensors = {{.input = input, .output = output, .shape = {1, 2}}};
    pending->request.tensors[0].output_bytes = bytes;
    const auto batches = make_batches({pending});
    const std::size_t counts[] = {2, 4};
    const auto memory = batches[0].batch.allocate(0, counts);
    ASSERT_TRUE(memory.is_ok());
    EXPECT_EQ(memory.value() == output, bytes == sizeof(output));
    EXPECT_EQ(memory.value(), pending->gathered[0].begin());
  }
}

}  // namespace
}  // namespace hvd
