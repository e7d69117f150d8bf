// SPDX-License-Identifier: Apache-2.0
#include "optim/gradient_set.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "optim/compression/methods.h"

namespace hvd {
namespace {

std::vector<GradientSet::Gradient> three_of_40_bytes() {
  std::vector<GradientSet::Gradient> gradients;
  for (const char* name : {"a", "b", "c"}) {
    gradients.push_back({name, Tensor{.shape = {2, 5}}});
  }
  return gradients;
}

TEST(GradientSet, SubmitsInPlaceAndDoesNotWakeForWhatIsSoonDone) {
  GradientSet set(three_of_40_bytes(), {});
  float data[10];
  const auto first = set.ready(1, data, false, 2).value();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->name, "b");
  EXPECT_EQ(first->tensors[0].input, data);
  EXPECT_EQ(first->tensors[0].output, data);
  EXPECT_TRUE(first->more);
  EXPECT_TRUE(set.ready(0, data, false, 2).value()->more);
  EXPECT_EQ(set.missing(), (std::vector<std::size_t>{2}));
  EXPECT_TRUE(set.ready(2, data, false, 2).value()->more);
  EXPECT_TRUE(set.missing().empty());
  EXPECT_FALSE(set.is_worth_waking());
}

const float* values_of(const Request& request) {
  return static_cast<const float*>(request.tensors[0].input);
}

TEST(GradientSet, SaysOnceAStepThatItHasAllGradients) {
  GradientSet set(three_of_40_bytes(), {.tracks_use = true});
  float data[10];
  for (int step = 0; step < 2; ++step) {
    EXPECT_FALSE(set.whole_request(false).has_value());
    for (const std::size_t index : {0, 2}) ASSERT_TRUE(set.ready(index, data, true, 2).is_ok());
    EXPECT_FALSE(set.whole_request(false).has_value());
    ASSERT_TRUE(set.mark_elsewhere(1).is_ok());
    const auto request = set.whole_request(false);
    ASSERT_TRUE(request.has_value());
    EXPECT_EQ(request->name, "a/whole");
    EXPECT_EQ(std::get<Allreduce>(request->operation).op, ReduceOp::kAverage);
    EXPECT_EQ(values_of(*request)[0], 0);
    EXPECT_FALSE(set.whole_request(true).has_value());
    EXPECT_TRUE(set.is_whole());
    set.begin_step();
  }
  GradientSet plain(three_of_40_bytes(), {});
  EXPECT_FALSE(plain.whole_request(true).has_value());
}

TEST(GradientSet, LearnsInRoundsWhatOtherRanksHave) {
  GradientSet set(three_of_40_bytes(), {.tracks_use = true});
  float data[10];
  ASSERT_TRUE(set.ready(0, data, true, 2).is_ok());
  const auto whole = set.whole_request(true);
  ASSERT_TRUE(whole.has_value());
  EXPECT_EQ(values_of(*whole)[0], 1);
  EXPECT_FALSE(set.is_whole());
  const Request use = set.use_request(true);
  EXPECT_EQ(use.name, "a/use");
  auto* const uses = static_cast<float*>(use.tensors[0].output);
  EXPECT_EQ(std::vector<float>(uses, uses + 4), (std::vector<float>{1, 0, 0, 0}));
  uses[2] = uses[3] = 0.5F;  // another rank has "c", and goes on
  const GradientSet::Round first = set.end_round();
  EXPECT_EQ(first.needed, (std::vector<std::size_t>{2}));
  EXPECT_FALSE(first.is_over);
  ASSERT_TRUE(set.ready(2, data, true, 2).is_ok());
  ASSERT_TRUE(set.whole_request(true).has_value());
  static_cast<void>(set.use_request(true));
  EXPECT_TRUE(set.end_round().is_over);
  EXPECT_EQ(set.missing(), (std::vector<std::size_t>{1}));
  // A step that was left while its request is still in flight: the next has memory of its own.
  set.begin_step();
  ASSERT_TRUE(set.whole_request(true).has_value());
  EXPECT_EQ(values_of(*whole)[0], 1);
}

TEST(GradientSet, WakesWithTheLastOfMany) {
  std::vector<GradientSet::Gradient> gradients = three_of_40_bytes();
  gradients[0].tensor.shape = {static_cast<std::int64_t>(GradientSet::kWorthWaking / 4)};
  GradientSet set(std::move(gradients), {});
  ASSERT_TRUE(set.share(2, GradientSet::Sharing::kLocal).is_ok());
  float data[10];  // only its address is looked at
  EXPECT_TRUE(set.ready(0, data, false, 2).value()->more);
  EXPECT_TRUE(set.ready(1, data, false, 2).value()->more);
  EXPECT_FALSE(set.is_worth_waking());
  EXPECT_FALSE(set.ready(2, data, false, 2).value().has_value());
  EXPECT_TRUE(set.is_worth_waking());  // nothing was submitted, so the caller must wake the engine
}

TEST(GradientSet, WakesWhenABucketIsFull) {
  GradientSet set(three_of_40_bytes(), {.flush_bytes = 80});
  float data[10];
  EXPECT_TRUE(set.ready(0, data, false, 2).value()->more);
  EXPECT_FALSE(set.ready(1, data, false, 2).value()->more);
  EXPECT_TRUE(set.ready(2, data, false, 2).value()->more);
}

TEST(GradientSet, AccumulatesPassesBeforeItSubmits) {
  GradientSet set(three_of_40_bytes(), {.passes_per_step = 2});
  float data[10];
  EXPECT_FALSE(set.ready(0, data, false, 2).value().has_value());
  EXPECT_TRUE(set.ready(0, data, false, 2).value().has_value());
  EXPECT_TRUE(set.ready(1, data, true, 2).value().has_value());  // a step cut short
}

TEST(GradientSet, RefusesAPassTooManyUntilTheNextStep) {
  GradientSet set(three_of_40_bytes(), {});
  float data[10];
  EXPECT_TRUE(set.ready(0, data, false, 2).is_ok());
  EXPECT_EQ(set.ready(0, data, false, 2).status().code(), Code::kInvalidArgument);
  set.begin_step();
  EXPECT_TRUE(set.ready(0, data, false, 2).is_ok());
  EXPECT_EQ(set.ready(3, data, false, 2).status().code(), Code::kInvalidArgument);
}

TEST(GradientSet, TakesANewDescription) {
  GradientSet set(three_of_40_bytes(), {});
  ASSERT_TRUE(set.describe(0, Tensor{.shape = {5, 2}, .layout = 9}).is_ok());
  float data[10];
  EXPECT_EQ(set.ready(0, data, false, 2).value()->tensors[0].layout, 9u);
  EXPECT_FALSE(set.set_passes_per_step(0).is_ok());
}

Allreduce operation_of(const Request& request) { return std::get<Allreduce>(request.operation); }

TEST(GradientSet, DividesAnAverageInTwoParts) {
  GradientSet set(three_of_40_bytes(), {.operation = {ReduceOp::kAverage, 3, 5}, .predivide = 4});
  float data[10];
  const Allreduce operation = operation_of(*set.ready(0, data, false, 2).value());
  EXPECT_EQ(operation, (Allreduce{ReduceOp::kAverage, 0.75, 20}));
}

TEST(GradientSet, MayTakeTheMeanOverThePassesThatTookPlace) {
  GradientSet set(three_of_40_bytes(), {.passes_per_step = 4, .mean_over_passes = true});
  float data[10];
  for (int pass = 0; pass < 3; ++pass)
    EXPECT_FALSE(set.ready(0, data, false, 2).value().has_value());
  EXPECT_EQ(operation_of(*set.ready(0, data, false, 2).value()).prescale, 0.25);
  EXPECT_EQ(operation_of(*set.ready(1, data, true, 2).value()).prescale, 1);
}

TEST(GradientSet, RefusesOptionsThatMakeNoSense) {
  for (const GradientSet::Options& wrong : std::initializer_list<GradientSet::Options>{
           {.passes_per_step = 0},
           {.predivide = 0},
           {.predivide = -1},
           {.operation = {ReduceOp::kSum}, .predivide = 2},
           {.clip_norm = -1},
           {.clip_norm = INFINITY},
       }) {
    EXPECT_EQ(GradientSet::check(wrong).code(), Code::kInvalidArgument);
  }
  EXPECT_TRUE(GradientSet::check({.predivide = 2, .clip_norm = 1}).is_ok());
}

TEST(GradientSet, LocalGradientsStayAndWeighAsInAnAverage) {
  GradientSet set(three_of_40_bytes(), {});
  EXPECT_FALSE(set.has_local());
  ASSERT_TRUE(set.share(0, GradientSet::Sharing::kLocal).is_ok());
  ASSERT_TRUE(set.share(1, GradientSet::Sharing::kLocalScaled).is_ok());
  EXPECT_TRUE(set.has_local());
  std::vector<float> a(10, 8.0F);
  std::vector<float> b(10, 8.0F);
  std::vector<float> c(10, 1.0F);
  EXPECT_FALSE(set.ready(0, a.data(), false, 2).value().has_value());
  EXPECT_FALSE(set.ready(1, b.data(), false, 2).value().has_value());
  EXPECT_TRUE(set.ready(2, c.data(), false, 2).value().has_value());
  set.finish(4);
  EXPECT_EQ(a[9], 8);
  EXPECT_EQ(b[9], 2);
  const auto norm = set.squared_norm();
  EXPECT_EQ(norm.reduced, 10);
  EXPECT_EQ(norm.local, 10 * 64 + 10 * 4);
  set.scale(0.5);
  EXPECT_EQ(a[0], 4);
  EXPECT_EQ(c[0], 0.5F);
}

TEST(GradientSet, ReducesWhatALocalStepChanged) {
  GradientSet set(three_of_40_bytes(), {.operation = {ReduceOp::kSum}});
  std::vector<float> values(10, 5.0F);
  ASSERT_TRUE(set.start(0, values.data()).is_ok());
  for (float& value : values) value = 4.0F;  // the local step
  const auto request = set.ready(0, values.data(), false, 2).value();
  auto* const difference = static_cast<float*>(request->tensors[0].output);
  ASSERT_NE(difference, values.data());
  EXPECT_EQ(difference[9], -1);
  difference[9] = -7;  // what the ranks made of it
  set.finish(2);
  EXPECT_EQ(values[9], -2);
  EXPECT_EQ(values[0], 4);
  set.begin_step();
  EXPECT_EQ(set.ready(0, values.data(), false, 2).value()->tensors[0].output, values.data());
}

TEST(GradientSet, DifferencesNeedFloatsAndNoClipping) {
  std::vector<float> values(10);
  GradientSet clipped(three_of_40_bytes(), {.clip_norm = 1});
  EXPECT_EQ(clipped.start(0, values.data()).code(), Code::kUnsupported);
  GradientSet doubles({{"a", Tensor{.dtype = DataType::kFloat64, .shape = {5}}}}, {});
  EXPECT_EQ(doubles.start(0, values.data()).code(), Code::kUnsupported);
  GradientSet set(three_of_40_bytes(), {});
  EXPECT_EQ(set.start(0, nullptr).code(), Code::kInvalidArgument);
  ASSERT_TRUE(set.start(0, values.data()).is_ok());
  EXPECT_EQ(set.compress(0, {}).code(), Code::kInvalidArgument);
}

TEST(GradientSet, CompressedGradientsSendTheirStages) {
  GradientSet set(three_of_40_bytes(), {});
  const Compression compression{.method = CompressionMethod::kFloat8E4m3, .smallest = 1};
  ASSERT_TRUE(set.compress(1, compression).is_ok());
  std::vector<float> data(10, 2.0F);
  const auto first = set.ready(1, data.data(), false, 2).value();
  EXPECT_EQ(first->name, "b");
  EXPECT_EQ(operation_of(*first).op, ReduceOp::kMax);
  EXPECT_EQ(set.compress(1, {}).code(), Code::kInvalidArgument);  // on its way
  const auto second = set.resume(1, nullptr).value();
  EXPECT_EQ(second->name, "b/codes");
  EXPECT_EQ(second->tensors[0].dtype, DataType::kUint8);
  EXPECT_FALSE(set.resume(0, nullptr).value().has_value());
}

TEST(GradientSet, CompressesSumsAndAveragesOnly) {
  GradientSet set(three_of_40_bytes(), {.operation = {ReduceOp::kMax}});
  const Compression top{.method = CompressionMethod::kTopK};
  EXPECT_EQ(set.compress(0, top).code(), Code::kUnsupported);
  EXPECT_TRUE(set.compress(0, {}).is_ok());
  EXPECT_EQ(set.compress(3, {}).code(), Code::kInvalidArgument);
}

constexpr Device kGpu{DeviceKind::kCuda, 1};

TEST(GradientSet, OfGpuMemoryAsksForItsDevice) {
  GradientSet set(three_of_40_bytes(), {.predivide = 2, .device = kGpu});
  Compression half;
  half.method = CompressionMethod::kFloat16;
  half.smallest = 1;
  ASSERT_TRUE(set.compress(0, half).is_ok());
  float data[10];  // only its address is looked at
  const auto request = set.ready(0, data, false, 2).value();
  EXPECT_EQ(request->device, kGpu);
  EXPECT_EQ(std::get<Allreduce>(request->operation).wire, Wire::kFloat16);
  EXPECT_EQ(std::get<Allreduce>(request->operation).prescale, 0.5);
}

TEST(GradientSet, OfGpuMemoryRefusesWhatTheHostComputes) {
  EXPECT_EQ(GradientSet::check({.clip_norm = 1, .device = kGpu}).code(), Code::kUnsupported);
  GradientSet set(three_of_40_bytes(), {.device = kGpu});
  EXPECT_EQ(set.set_clip_norm(1).code(), Code::kUnsupported);
  EXPECT_EQ(set.share(0, GradientSet::Sharing::kLocalScaled).code(), Code::kUnsupported);
  EXPECT_TRUE(set.share(0, GradientSet::Sharing::kLocal).is_ok());
  const float values[10] = {};
  EXPECT_EQ(set.start(1, values).code(), Code::kUnsupported);
  for (const CompressionMethod method :
       {CompressionMethod::kFloat8E4m3, CompressionMethod::kFloat8E5m2, CompressionMethod::kTopK,
        CompressionMethod::kPowerSgd}) {
    EXPECT_EQ(set.compress(1, {.method = method}).code(), Code::kUnsupported) << name_of(method);
  }
}

/// What a request reads, after the set that made it has ended.
std::vector<std::byte> read_after_the_end(const GradientSet::Options& options,
                                          const Compression& compression, bool is_difference,
                                          bool ends) {
  auto set = std::make_unique<GradientSet>(three_of_40_bytes(), options);
  EXPECT_TRUE(set->compress(0, compression).is_ok());
  float data[10] = {9, 8, 7, 6, 5, 4, 3, 2, 1, 0.5};
  const float before[10] = {};
  if (is_difference) {
    EXPECT_TRUE(set->start(0, before).is_ok());
  }
  const auto request = set->ready(0, data, false, 2).value();
  if (ends) set = nullptr;
  const Tensor& tensor = request->tensors[0];
  const auto* const bytes = static_cast<const std::byte*>(tensor.input);
  return {bytes, bytes + count_of(tensor) * size_of(tensor.dtype)};
}

// A step that is abandoned may still be in flight when its set ends. What compression reads only a
// sanitizer can judge.
TEST(GradientSet, RequestsKeepWhatTheyReadWhenTheSetEnds) {
  for (const CompressionMethod method : {CompressionMethod::kNone, CompressionMethod::kFloat8E4m3,
                                         CompressionMethod::kTopK, CompressionMethod::kPowerSgd}) {
    for (const bool is_difference : {false, true}) {
      const Compression compression{.method = method, .ratio = 0.5, .smallest = 1};
      const auto expected = read_after_the_end({}, compression, is_difference, false);
      const auto kept = read_after_the_end({}, compression, is_difference, true);
      EXPECT_EQ(kept.size(), expected.size());
      if (method == CompressionMethod::kNone) {
        EXPECT_EQ(kept, expected);
      }
    }
  }
}

}  // namespace
}  // namespace hvd
