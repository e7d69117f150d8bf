// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/nccl_reductions.h"

#include <gtest/gtest.h>

#include <utility>

namespace hvd {
namespace {

/// Batches of one rank, whose tensors lie where nobody looks.
class NcclCut : public testing::Test {
 protected:
  static constexpr std::size_t kPart = 4 * kSlotBytes;
  /// Tensors one behind the other, in place.
  Batch batch_of(const Operation& operation, const std::vector<std::size_t>& counts) {
    Batch batch;
    batch.operation = operation;
    std::size_t place = 0;
    for (const std::size_t count : counts) {
      batch.segments.push_back({&memory_[place], &memory_[place], count, 1});
      place += count;
    }
    return batch;
  }
  /// How much each part needs of the bucket.
  static std::vector<std::size_t> buckets_of(Batch batch) {
    Communicator communicator;
    communicator.size = 2;
    const NcclPlanOptions options{.pack_bytes = 400, .part_bytes = kPart};
    const std::vector<Segment> whole = batch.segments;
    std::vector<std::size_t> bytes;
    std::size_t tensor = 0;
    std::size_t begin = 0;
    for (auto& part : cut_for_bucket(batch, communicator, options)) {
      batch.segments = std::move(part);
      bytes.push_back(plan_nccl(batch, communicator, nullptr, options).bucket_bytes);
      for (const Segment& segment : batch.segments) {
        const Segment& from = whole.at(tensor);
        const auto at = [&](const void* first) {
          return first == nullptr ? nullptr : static_cast<const float*>(first) + begin;
        };
        EXPECT_EQ(segment.input, at(from.input));
        EXPECT_EQ(segment.output, at(from.output));
        begin += segment.count;
        if (begin < from.count) continue;
        ++tensor;
        begin = 0;
      }
    }
    EXPECT_EQ(tensor, whole.size()) << "something is left";
    return bytes;
  }
  using Sizes = std::vector<std::size_t>;
  std::vector<float> memory_ = std::vector<float>(4000);
};

TEST_F(NcclCut, GivesPartsOfABoundedBucketOfWhatIsCast) {
  const Allreduce cast{.wire = Wire::kBfloat16};
  EXPECT_EQ(buckets_of(batch_of(cast, {kPart / 2})), (Sizes{kPart}));
  EXPECT_EQ(buckets_of(batch_of(cast, {kPart / 2 + 1})), (Sizes{kPart, kSlotBytes}));
  EXPECT_EQ(buckets_of(batch_of(cast, {100, 0, 1300})), (Sizes{kPart, kPart, kPart}));
  EXPECT_EQ(buckets_of(batch_of(Reduce{.op = ReduceOp::kMax, .prescale = 2.0}, {600})),
            (Sizes{kPart, kPart, 2 * kSlotBytes}));
}

TEST_F(NcclCut, GivesPartsOfManySmallTensors) {
  EXPECT_EQ(buckets_of(batch_of(Allreduce{}, {100, 100, 100, 100, 60})), (Sizes{kPart, kPart, 0}))
      << "the last is alone, and goes as it is";
}

TEST_F(NcclCut, LeavesWholeWhatGoesAsItIs) {
  EXPECT_EQ(buckets_of(batch_of(Allreduce{.op = ReduceOp::kAverage}, {3000})), (Sizes{0}));
  EXPECT_EQ(buckets_of(batch_of(Broadcast{0}, {3000})), (Sizes{0}));
}

TEST_F(NcclCut, KeepsWholeWhoseElementsDoNotStandAlone) {
  EXPECT_EQ(
      buckets_of(batch_of(Reducescatter{.op = ReduceOp::kMax, .prescale = 2.0}, {600})).size(), 1U);
  EXPECT_EQ(buckets_of(batch_of(Allreduce{.op = ReduceOp::kAdasum}, {600})).size(), 1U);
}

TEST_F(NcclCut, CutsOnARankThatHasJoinedAsOnTheOthers) {
  const Allreduce cast{.wire = Wire::kBfloat16};
  const Sizes others = buckets_of(batch_of(cast, {100, 1300}));
  Batch joined = batch_of(cast, {100, 1300});
  joined.gpu.is_neutral = true;
  for (Segment& segment : joined.segments) segment.input = segment.output = nullptr;
  EXPECT_EQ(buckets_of(std::move(joined)), others);
  EXPECT_EQ(others, (Sizes{kPart, kPart, kPart}));
}

}  // namespace
}  // namespace hvd
