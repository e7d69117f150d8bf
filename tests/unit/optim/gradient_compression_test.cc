// SPDX-License-Identifier: Apache-2.0
// What compression keeps between the steps of a GradientSet.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "optim/gradient_set.h"

namespace hvd {
namespace {

std::vector<GradientSet::Gradient> three_matrices() {
  std::vector<GradientSet::Gradient> gradients;
  for (const char* name : {"a", "b", "c"}) {
    gradients.push_back({name, Tensor{.shape = {2, 5}}});
  }
  return gradients;
}

/// A step of one gradient, which top-k compresses, on one rank. What it gives.
std::vector<float> step_alone(GradientSet& set, std::size_t index, std::vector<float> data) {
  const auto request = set.ready(index, data.data(), true, 1).value();
  const Tensor& message = request->tensors[0];
  const auto words = static_cast<std::size_t>(message.shape[0]);
  GatherResult gathered;
  gathered.rows = {message.shape[0]};
  gathered.data.reset(new std::byte[words * 4]);
  std::memcpy(gathered.data.get(), message.input, words * 4);
  EXPECT_FALSE(set.resume(index, &gathered).value().has_value());
  set.finish(1);
  set.begin_step();
  return data;
}

constexpr Compression kTopOfTen{.method = CompressionMethod::kTopK, .ratio = 0.1, .smallest = 1};

TEST(GradientCompression, KeepsWhatIsLeftInTrueUnits) {
  GradientSet set(three_matrices(), {});
  ASSERT_TRUE(set.compress(1, kTopOfTen).is_ok());
  ASSERT_TRUE(set.set_loss_scale(65'536).is_ok());
  EXPECT_EQ(step_alone(set, 1, {2 * 65'536, 65'536, 0, 0, 0, 0, 0, 0, 0, 0})[0], 2 * 65'536);
  ASSERT_TRUE(set.set_loss_scale(1'024).is_ok());
  EXPECT_EQ(step_alone(set, 1, std::vector<float>(10))[1], 1'024);
}

TEST(GradientCompression, KeepsMeansOverPassesAsSuch) {
  GradientSet set(three_matrices(), {.passes_per_step = 4, .mean_over_passes = true});
  ASSERT_TRUE(set.compress(1, kTopOfTen).is_ok());
  std::vector<float> pass(10);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(set.ready(1, pass.data(), false, 1).is_ok());
  EXPECT_EQ(step_alone(set, 1, {8, 4, 0, 0, 0, 0, 0, 0, 0, 0})[0], 2);  // of four passes
  EXPECT_EQ(step_alone(set, 1, std::vector<float>(10))[1], 1);          // of one
}

TEST(GradientCompression, AStepWithAGradientThatIsNotFiniteLeavesWhatOthersKept) {
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    GradientSet set(three_matrices(), {});
    ASSERT_TRUE(set.compress(1, kTopOfTen).is_ok());
    EXPECT_EQ(step_alone(set, 1, {9, 1, 0, 0, 0, 0, 0, 0, 0, 0})[0], 9);
    const Bytes before = set.save();
    std::vector<float> other(10, 1.0F);
    other[7] = bad;  // travels whole
    ASSERT_TRUE(set.ready(0, other.data(), true, 1).is_ok());
    EXPECT_EQ(step_alone(set, 1, {0, 0, 5, 2, 0, 0, 0, 0, 0, 0})[2], 5);
    EXPECT_EQ(set.save(), before);
    EXPECT_EQ(step_alone(set, 1, std::vector<float>(10))[1], 1);
  }
}

TEST(GradientCompression, TakesALossScaleBetweenStepsOnly) {
  GradientSet set(three_matrices(), {});
  for (const double wrong : {0.0, -1.0, double{INFINITY}, double{NAN}, 1e-40, 1e40}) {
    EXPECT_EQ(set.set_loss_scale(wrong).code(), Code::kInvalidArgument) << wrong;
  }
  ASSERT_TRUE(set.set_loss_scale(1'024).is_ok());
  float data[10];
  ASSERT_TRUE(set.ready(0, data, false, 2).is_ok());
  EXPECT_TRUE(set.set_loss_scale(1'024).is_ok());
  EXPECT_EQ(set.set_loss_scale(512).code(), Code::kInvalidArgument);
  set.begin_step();
  EXPECT_TRUE(set.set_loss_scale(512).is_ok());
}

TEST(GradientCompression, GivesMomentumOnlyToWhatIsReduced) {
  Compression moving = kTopOfTen;
  moving.momentum = 0.9;
  const std::vector<float> values(10);
  GradientSet set(three_matrices(), {});
  ASSERT_TRUE(set.compress(1, moving).is_ok());
  EXPECT_EQ(set.share(1, GradientSet::Sharing::kLocal).code(), Code::kUnsupported);
  EXPECT_TRUE(set.share(1, GradientSet::Sharing::kReduced).is_ok());
  EXPECT_EQ(set.start(1, values.data()).code(), Code::kUnsupported);
  ASSERT_TRUE(set.share(0, GradientSet::Sharing::kLocal).is_ok());
  EXPECT_EQ(set.compress(0, moving).code(), Code::kUnsupported);
  EXPECT_TRUE(set.compress(0, kTopOfTen).is_ok());
}

TEST(GradientCompression, LoadsTheStateOfTheSameGradientsOnly) {
  const Compression top{.method = CompressionMethod::kTopK, .ratio = 0.1, .smallest = 1};
  GradientSet set(three_matrices(), {});
  ASSERT_TRUE(set.compress(1, top).is_ok());
  step_alone(set, 1, {9, 1, 1, 1, 1, 1, 1, 1, 1, 1});
  const Bytes state = set.save();
  EXPECT_EQ(set.save(), state);

  GradientSet same(three_matrices(), {});
  EXPECT_EQ(same.load(state).code(), Code::kInvalidArgument);  // not compressed
  ASSERT_TRUE(same.compress(1, top).is_ok());
  EXPECT_NE(same.save(), state);
  for (std::size_t size = 0; size < state.size(); ++size) {
    EXPECT_EQ(same.load(std::span(state).first(size)).code(), Code::kInvalidArgument) << size;
  }
  ASSERT_TRUE(same.load(state).is_ok());
  EXPECT_EQ(same.save(), state);

  GradientSet with_momentum(three_matrices(), {});
  Compression moving = top;
  moving.momentum = 0.9;
  ASSERT_TRUE(with_momentum.compress(1, moving).is_ok());
  EXPECT_EQ(same.load(with_momentum.save()).code(), Code::kInvalidArgument);
  EXPECT_EQ(with_momentum.load(state).code(), Code::kInvalidArgument);
  EXPECT_EQ(same.save(), state);

  auto fewer = three_matrices();
  fewer.pop_back();
  EXPECT_EQ(GradientSet(std::move(fewer), {}).load(state).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace hvd
