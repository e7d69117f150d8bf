// SPDX-License-Identifier: Apache-2.0
#include "collective/pack_plan.h"

#include <gtest/gtest.h>

#include "collective/adasum_plan.h"

namespace hvd {
namespace {

// Addresses that are only counted with.
std::byte* address(std::size_t value) { return reinterpret_cast<std::byte*>(value); }
std::byte* const kBucket = address(std::size_t{1} << 40);

std::vector<PackSegment> segments(std::size_t how_many, std::size_t count) {
  std::vector<PackSegment> all;
  std::size_t offset = 0;
  for (std::size_t i = 0; i < how_many; ++i) {
    all.push_back({address(4096 * (i + 1)), offset, count});
    offset = next_slot(offset + count * 4);
  }
  return all;
}

TEST(PackPlan, TakesTwoHundredTensorsALaunch) {
  const auto launches = plan_pack(segments(450, 10), kBucket, {});
  ASSERT_EQ(launches.size(), 3U);
  EXPECT_EQ(launches[0].arguments.list.size, 200U);
  EXPECT_EQ(launches[1].arguments.list.size, 200U);
  EXPECT_EQ(launches[2].arguments.list.size, 50U);
  EXPECT_EQ(launches[2].arguments.list.tensors[49], address(4096 * 450));
  EXPECT_EQ(launches[2].arguments.list.offsets[49], 449 * 256U);
}

TEST(PackPlan, GivesTheListsOfKnownNetworksOneLaunch) {
  EXPECT_EQ(plan_pack(segments(161, 10), kBucket, {}).size(), 1U);  // ResNet-50
  EXPECT_EQ(plan_pack(segments(199, 10), kBucket, {}).size(), 1U);  // BERT-base
}

TEST(PackPlan, GivesEachTensorTheBlocksThatItNeeds) {
  const std::vector<PackSegment> all = {
      {address(256), 0, 1}, {address(512), 256, 4096}, {address(1024), 65536, 4097}};
  const PackFormat scaled{.scale = 0.5};
  const auto launches = plan_pack(all, kBucket, scaled);
  ASSERT_EQ(launches.size(), 1U);
  const kernels::TensorList& list = launches[0].arguments.list;
  EXPECT_EQ(list.first_blocks[0], 0U);
  EXPECT_EQ(list.first_blocks[1], 1U);
  EXPECT_EQ(list.first_blocks[2], 2U);  // 4096 float32 are a tile
  EXPECT_EQ(launches[0].shape.blocks, 4U);
  EXPECT_EQ(launches[0].shape.threads, kernels::kThreads);
}

TEST(PackPlan, LeavesEmptyTensorsOut) {
  std::vector<PackSegment> all = segments(3, 10);
  all[1].count = 0;
  const auto launches = plan_pack(all, kBucket, {});
  ASSERT_EQ(launches.size(), 1U);
  EXPECT_EQ(launches[0].arguments.list.size, 2U);
  all[0].count = all[2].count = 0;
  EXPECT_TRUE(plan_pack(all, kBucket, {}).empty());
}

TEST(PackPlan, CopiesBytesWhereNothingChanges) {
  const PackSegment segment{address(256), 0, 10};
  for (int i = 0; i < kDataTypeCount; ++i) {
    const auto dtype = static_cast<DataType>(i);
    const auto launches = plan_pack({&segment, 1}, kBucket, {dtype, dtype, 1.0});
    ASSERT_EQ(launches.size(), 1U);
    EXPECT_EQ(launches[0].kernel, "hvd_copy");
    EXPECT_EQ(launches[0].arguments.list.counts[0], 10 * size_of(dtype));
  }
}

TEST(PackPlan, SaysWhichWay) {
  const auto all = segments(1, 10);
  using enum DataType;
  const PackFormat half{.tensor = kFloat32, .bucket = kFloat16, .scale = 0.5};
  const auto pack = plan_pack(all, kBucket, half);
  EXPECT_EQ(pack[0].kernel, "hvd_float32_to_float16");
  EXPECT_EQ(pack[0].arguments.direction, kernels::Direction::kPack);
  EXPECT_EQ(pack[0].arguments.scale, 0.5);
  const auto unpack = plan_unpack(all, kBucket, half);
  EXPECT_EQ(unpack[0].kernel, "hvd_float16_to_float32");
  EXPECT_EQ(unpack[0].arguments.direction, kernels::Direction::kUnpack);
  EXPECT_EQ(plan_scale(all, kFloat32, 0.5)[0].arguments.direction, kernels::Direction::kInPlace);
}

TEST(PackPlan, ScalesIntegersWhereThereIsSomethingToDo) {
  const auto all = segments(1, 10);
  EXPECT_TRUE(plan_integer_scale(all, DataType::kInt32, 1.0, 1).empty());
  EXPECT_EQ(plan_integer_scale(all, DataType::kInt32, 0.5, 1).size(), 1U);
  EXPECT_EQ(plan_integer_scale(all, DataType::kInt32, 1.0, 2).size(), 1U);
}

TEST(PackPlan, ScalesComplexNumbersPartByPart) {
  const auto launches = plan_scale(segments(1, 10), DataType::kComplex64, 0.5);
  EXPECT_EQ(launches[0].kernel, "hvd_float32_to_float32");
  EXPECT_EQ(launches[0].arguments.list.counts[0], 20U);
}

TEST(PackPlan, KnowsWhatItCanCast) {
  using enum DataType;
  EXPECT_TRUE(can_pack({kFloat32, kFloat16, 0.5}));
  EXPECT_TRUE(can_pack({kFloat64, kBfloat16, 1.0}));
  EXPECT_TRUE(can_pack({kBfloat16, kFloat32, 1.0}));
  EXPECT_TRUE(can_pack({kComplex128, kComplex128, 0.5}));
  EXPECT_TRUE(can_pack({kBool, kBool, 1.0}));
  EXPECT_FALSE(can_pack({kInt32, kInt32, 0.5}));
  EXPECT_FALSE(can_pack({kFloat32, kFloat64, 1.0}));
  EXPECT_FALSE(can_pack({kFloat16, kBfloat16, 1.0}));
  EXPECT_FALSE(can_pack({kComplex64, kFloat16, 1.0}));
  EXPECT_TRUE(can_pack({kFloat8E4m3, kFloat8E4m3, 0.5}));
  EXPECT_FALSE(can_pack({kFloat8E4m3, kFloat8E5m2, 1.0}));
  EXPECT_FALSE(can_pack({kFloat32, kFloat8E5m2, 1.0}));
}

TEST(PackPlan, CutsTensorsThatAreLongerThanAKernelCounts) {
  const PackSegment segment{address(4096), 256, (std::size_t{5} << 28) + 3};  // float32: 5 GiB
  const auto launches = plan_pack({&segment, 1}, kBucket, {});
  std::size_t bytes = 0;
  for (const PackLaunch& launch : launches) {
    const kernels::TensorList& list = launch.arguments.list;
    for (std::uint32_t i = 0; i < list.size; ++i) {
      EXPECT_EQ(list.tensors[i], address(4096 + bytes));
      EXPECT_EQ(static_cast<std::byte*>(launch.arguments.bucket) + list.offsets[i],
                kBucket + 256 + bytes);
      bytes += list.counts[i];
    }
  }
  EXPECT_EQ(bytes, segment.count * 4);
}

TEST(PackPlan, BeginsALaunchWhereOffsetsWouldWrap) {
  const std::size_t far = (std::size_t{1} << 32) + 512;
  const std::vector<PackSegment> all = {
      {address(256), 0, 10}, {address(512), far, 10}, {address(1024), 256, 10}};
  const auto launches = plan_pack(all, kBucket, {});
  ASSERT_EQ(launches.size(), 3U);
  EXPECT_EQ(launches[1].arguments.bucket, kBucket + far - 512);
  EXPECT_EQ(launches[1].arguments.list.offsets[0], 512U);
  EXPECT_EQ(launches[2].arguments.bucket, kBucket);
}

TEST(AdasumPlan, CutsLongVectorsAndAddsAllTheirParts) {
  const std::vector<AdasumPair> pairs = {{0, 10}, {256, (std::size_t{3} << 30) + 1}, {64, 0}};
  const AdasumPlan plan =
      plan_adasum(pairs, DataType::kFloat32, {kBucket, kBucket, kBucket, kBucket});
  std::size_t pieces = 0;
  std::size_t elements = 0;
  std::size_t partials = 0;
  for (const auto& launch : plan.products) {
    const kernels::PairList& list = launch.arguments.pairs;
    for (std::uint32_t i = 0; i < list.size; ++i) {
      elements += list.counts[i];
      ++pieces;
    }
    partials += std::size_t{launch.shape.blocks} * kernels::kThreads;
  }
  EXPECT_EQ(plan.products.front().kernel, "hvd_dot_float32");
  EXPECT_EQ(plan.combinations.front().kernel, "hvd_combine_float32");
  EXPECT_EQ(pieces, 1U + 4U + 1U);
  EXPECT_EQ(elements, 10 + pairs[1].count);
  const kernels::SumDotsArguments& first = plan.sums.front().arguments;
  EXPECT_EQ(partials, first.first_inputs[2] + first.input_counts[2]);
  EXPECT_EQ(plan.sums.back().arguments.to, plan.dots);
  EXPECT_EQ(plan.combinations.front().arguments.pairs.pairs[1], 1U);
  EXPECT_EQ(plan.combinations.back().arguments.pairs.pairs[0], 2U);
}

TEST(AdasumPlan, AddsTheDotsOfEveryPair) {
  kernels::Dots both[6] = {};
  EXPECT_TRUE(plan_adding_dots(both, 0).empty());
  EXPECT_EQ(plan_adding_dots(both, 1).size(), 1U);
  EXPECT_EQ(plan_adding_dots(both, 3).front().arguments.to, both + 3);
}

TEST(AdasumPlan, SumsPairsOfSeveralLaunchesBehindEachOther) {
  const std::vector<AdasumPair> pairs(401, {0, 100});
  const AdasumPlan plan =
      plan_adasum(pairs, DataType::kFloat64, {kBucket, kBucket, kBucket, kBucket});
  ASSERT_EQ(plan.products.size(), 3U);
  EXPECT_EQ(plan.products[1].arguments.partials,
            plan.products[0].arguments.partials + 200 * kernels::kThreads);
  ASSERT_EQ(plan.sums.size(), 6U);  // 256 partial sums of each pair, 4, 1
  EXPECT_EQ(plan.sums[5].arguments.to, plan.dots + 400);
  EXPECT_EQ(plan.combinations[2].arguments.pairs.pairs[0], 400U);
}

}  // namespace
}  // namespace hvd
