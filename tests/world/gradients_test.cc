// SPDX-License-Identifier: Apache-2.0
// Steps of a GradientReducer on real engines: every compression, clipping, local gradients and
// differences, end to end.
#include "optim/gradient_reducer.h"

#include <cmath>
#include <cstring>
#include <string>

#include "world/world.h"

namespace hvd {
namespace {

// Large enough for four ranks to exchange shares of 8-bit floats.
constexpr std::size_t kRows = 200;
constexpr std::size_t kColumns = 250;

/// A matrix that compression takes, a vector that travels whole, and a matrix again.
struct Model {
  std::vector<std::vector<float>> gradients{std::vector<float>(kRows * kColumns),
                                            std::vector<float>(7),
                                            std::vector<float>(kRows* kColumns)};

  static std::vector<GradientSet::Gradient> description() {
    const auto rows = static_cast<std::int64_t>(kRows);
    const auto columns = static_cast<std::int64_t>(kColumns);
    return {{"first", Tensor{.shape = {rows, columns}}},
            {"bias", Tensor{.shape = {7}}},
            {"last", Tensor{.shape = {rows, columns}}}};
  }
  void fill(int rank, int step) {
    std::uint32_t state = static_cast<std::uint32_t>(1 + rank * 1'000 + step);
    for (auto& gradient : gradients) {
      for (float& value : gradient) {
        state = state * 1664525U + 1013904223U;
        value = static_cast<float>(static_cast<std::int32_t>(state)) / 2147483648.0F;
      }
    }
  }
  double norm() const {
    double sum = 0;
    for (const auto& gradient : gradients) {
      for (const float value : gradient) sum += static_cast<double>(value) * value;
    }
    return std::sqrt(sum);
  }
};

Status run_step(GradientReducer& reducer, Engine& engine, Model& model, bool backwards = false) {
  for (std::size_t k = 0; k < model.gradients.size(); ++k) {
    const std::size_t index = backwards ? model.gradients.size() - 1 - k : k;
    HVD_TRY(reducer.ready(engine, {index, model.gradients[index].data(), false}));
  }
  return reducer.wait(engine, soon());
}

/// Fails unless all ranks hold the same bits.
void expect_equal_everywhere(Engine& engine, const Model& model) {
  for (const auto& gradient : model.gradients) {
    Request request;
    request.name = "compare." + std::to_string(gradient.size());
    request.operation = Allgather{};
    request.tensors.push_back(
        {.input = gradient.data(), .shape = {static_cast<std::int64_t>(gradient.size())}});
    const auto handle = engine.submit(std::move(request)).value();
    ASSERT_TRUE(engine.wait(handle, soon()).is_ok());
    const GatherResult* all = engine.gathered(handle, 0).value();
    for (std::size_t rank = 0; rank < all->rows.size(); ++rank) {
      const std::byte* const theirs = all->data.get() + rank * gradient.size() * sizeof(float);
      ASSERT_EQ(std::memcmp(theirs, gradient.data(), gradient.size() * sizeof(float)), 0);
    }
    engine.release(handle);
  }
}

class GradientsWorld : public testing::TestWithParam<std::vector<int>> {};

TEST_P(GradientsWorld, EveryCompressionGivesTheSameBitsOnAllRanks) {
  World world(GetParam());
  world.run([](int rank, Engine& engine) {
    for (const CompressionMethod method :
         {CompressionMethod::kNone, CompressionMethod::kFloat8E4m3, CompressionMethod::kFloat8E5m2,
          CompressionMethod::kTopK, CompressionMethod::kPowerSgd}) {
      GradientReducer reducer(GradientSet(Model::description(), {}));
      for (std::size_t i = 0; i < 3; ++i) {
        ASSERT_TRUE(reducer.set().compress(i, {.method = method, .ratio = 0.1}).is_ok());
      }
      Model model;
      for (int step = 0; step < 2; ++step) {
        model.fill(rank, step);
        // Ranks may finish their gradients in any order.
        const Status status = run_step(reducer, engine, model, rank % 2 == 1);
        ASSERT_TRUE(status.is_ok()) << status.message();
        expect_equal_everywhere(engine, model);
      }
    }
  });
}

TEST_P(GradientsWorld, MixedMethodsShareAStep) {
  World world(GetParam());
  world.run([](int rank, Engine& engine) {
    GradientReducer reducer(GradientSet(Model::description(), {}));
    auto& set = reducer.set();
    ASSERT_TRUE(set.compress(0, {.method = CompressionMethod::kPowerSgd}).is_ok());
    ASSERT_TRUE(set.compress(2, {.method = CompressionMethod::kFloat8E4m3}).is_ok());
    Model model;
    model.fill(0, 1);  // the same on all ranks: the average is known
    const Model expected = model;
    const Status status = run_step(reducer, engine, model);
    ASSERT_TRUE(status.is_ok()) << status.message();
    expect_equal_everywhere(engine, model);
    for (std::size_t i = 0; i < 7; ++i) {
      EXPECT_NEAR(model.gradients[1][i], expected.gradients[1][i], 1e-6);
    }
    for (std::size_t i = 0; i < kRows * kColumns; ++i) {
      ASSERT_NEAR(model.gradients[2][i], expected.gradients[2][i],
                  0.001 + 0.0626 * std::fabs(expected.gradients[2][i]));
    }
    static_cast<void>(rank);
  });
}

TEST_P(GradientsWorld, AGradientThatIsNotFiniteOnOneRankTakesNothingFromAnyRank) {
  World world(GetParam());
  world.run([](int rank, Engine& engine) {
    for (const CompressionMethod method :
         {CompressionMethod::kFloat8E4m3, CompressionMethod::kTopK, CompressionMethod::kPowerSgd}) {
      for (const std::size_t bad : {std::size_t{0}, std::size_t{1}}) {  // compressed, and whole
        GradientReducer reducer(GradientSet(Model::description(), {}));
        for (const std::size_t i : {0, 2}) {
          ASSERT_TRUE(reducer.set().compress(i, {.method = method}).is_ok());
        }
        Model model;
        model.fill(rank, 0);
        ASSERT_TRUE(run_step(reducer, engine, model).is_ok());
        const Bytes before = reducer.set().save();
        model.fill(rank, 1);
        if (rank == engine.world().size - 1) model.gradients[bad][3] = -INFINITY;
        ASSERT_TRUE(run_step(reducer, engine, model).is_ok());
        expect_equal_everywhere(engine, model);
        EXPECT_FALSE(std::isfinite(model.gradients[bad][3])) << name_of(method);
        EXPECT_TRUE(std::isfinite(model.gradients[2][3])) << name_of(method);
        EXPECT_EQ(reducer.set().save(), before) << name_of(method);
      }
    }
  });
}

TEST_P(GradientsWorld, ClipsTheNormOfTrueGradients) {
  World world(GetParam());
  world.run([](int, Engine& engine) {
    GradientReducer reducer(GradientSet(Model::description(), {.clip_norm = 2}));
    ASSERT_TRUE(reducer.set().set_loss_scale(1'024).is_ok());
    Model model;
    model.fill(0, 3);
    const double before = model.norm();
    for (auto& gradient : model.gradients) {
      for (float& value : gradient) value *= 1'024;
    }
    ASSERT_TRUE(run_step(reducer, engine, model).is_ok());
    EXPECT_NEAR(reducer.last_norm(), before, 1e-4);
    EXPECT_NEAR(model.norm(), 2 * 1'024, 0.1);
  });
}

TEST_P(GradientsWorld, ClipsTheGlobalNormOfReducedGradients) {
  World world(GetParam());
  world.run([](int, Engine& engine) {
    GradientReducer reducer(GradientSet(Model::description(), {.clip_norm = 2}));
    Model model;
    model.fill(0, 3);
    const double before = model.norm();
    ASSERT_GT(before, 4);
    ASSERT_TRUE(run_step(reducer, engine, model).is_ok());
    EXPECT_NEAR(reducer.last_norm(), before, 1e-4);
    EXPECT_NEAR(model.norm(), 2, 1e-4);
    for (auto& gradient : model.gradients) {
      for (float& value : gradient) value *= 0.5F;
    }
    const Model small = model;
    ASSERT_TRUE(run_step(reducer, engine, model).is_ok());
    EXPECT_NEAR(model.norm(), small.norm(), 1e-5);  // below the limit: untouched
  });
}

TEST_P(GradientsWorld, TheNormCountsLocalGradientsOfAllRanks) {
  World world(GetParam());
  world.run([](int rank, Engine& engine) {
    const int size = engine.world().size;
    GradientReducer reducer(
        GradientSet({{"shared", Tensor{.shape = {1}}}, {"mine", Tensor{.shape = {1}}}},
                    {.operation = {ReduceOp::kSum}, .clip_norm = 1}));
    ASSERT_TRUE(reducer.set().share(1, GradientSet::Sharing::kLocal).is_ok());
    float shared = 1;
    float mine = static_cast<float>(rank + 1);
    double expected = static_cast<double>(size) * size;
    for (int other = 1; other <= size; ++other) expected += static_cast<double>(other) * other;
    expected = std::sqrt(expected);
    ASSERT_TRUE(reducer.ready(engine, {0, &shared, false}).is_ok());
    ASSERT_TRUE(reducer.ready(engine, {1, &mine, false}).is_ok());
    const Status status = reducer.wait(engine, soon());
    ASSERT_TRUE(status.is_ok()) << status.message();
    EXPECT_NEAR(reducer.last_norm(), expected, 1e-6);
    EXPECT_NEAR(shared, size / expected, 1e-5);
    EXPECT_NEAR(mine, (rank + 1) / expected, 1e-5);
  });
}

TEST_P(GradientsWorld, ReducesTheDifferencesOfLocalSteps) {
  World world(GetParam());
  world.run([](int rank, Engine& engine) {
    const int size = engine.world().size;
    GradientReducer reducer(
        GradientSet({{"w", Tensor{.shape = {3}}}}, {.operation = {ReduceOp::kSum}}));
    std::vector<float> values(3, 10.0F);
    for (int step = 1; step <= 3; ++step) {
      ASSERT_TRUE(reducer.set().start(0, values.data()).is_ok());
      const float start = values[0];
      for (float& value : values) value += static_cast<float>(rank + 1);  // the local step
      ASSERT_TRUE(reducer.ready(engine, {0, values.data(), false}).is_ok());
      ASSERT_TRUE(reducer.wait(engine, soon()).is_ok());
      EXPECT_EQ(values[2], start + static_cast<float>(size * (size + 1) / 2));
    }
  });
}

TEST_P(GradientsWorld, AdasumTakesOneOfEqualDifferencesAndAllOfOrthogonalOnes) {
  World world(GetParam());
  world.run([](int rank, Engine& engine) {
    const int size = engine.world().size;
    GradientReducer reducer(
        GradientSet({{"equal", Tensor{.shape = {8}}}, {"own", Tensor{.shape = {8}}}},
                    {.operation = {ReduceOp::kAdasum}}));
    std::vector<float> equal(8, 1.0F);
    std::vector<float> own(8, 1.0F);
    ASSERT_TRUE(reducer.set().start(0, equal.data()).is_ok());
    ASSERT_TRUE(reducer.set().start(1, own.data()).is_ok());
    for (float& value : equal) value -= 0.5F;
    own[static_cast<std::size_t>(rank)] -= 0.5F;
    ASSERT_TRUE(reducer.ready(engine, {0, equal.data(), false}).is_ok());
    ASSERT_TRUE(reducer.ready(engine, {1, own.data(), false}).is_ok());
    const Status status = reducer.wait(engine, soon());
    ASSERT_TRUE(status.is_ok()) << status.message();
    for (int i = 0; i < 8; ++i) {
      EXPECT_NEAR(equal[static_cast<std::size_t>(i)], 0.5, 1e-6);
      EXPECT_NEAR(own[static_cast<std::size_t>(i)], i < size ? 0.5 : 1, 1e-6);
    }
  });
}

TEST_P(GradientsWorld, AMismatchFailsTheStepEverywhereAndTheNextOneWorks) {
  World world(GetParam());
  if (world.size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  world.run([](int rank, Engine& engine) {
    GradientReducer reducer(GradientSet(Model::description(), {}));
    auto& set = reducer.set();
    const auto rank_of_method = rank == 0 ? 1 : 2;  // PowerSGD factors of different sizes
    const Compression wrong{.method = CompressionMethod::kPowerSgd, .rank = rank_of_method};
    ASSERT_TRUE(set.compress(0, wrong).is_ok());
    Model model;
    model.fill(rank, 0);
    EXPECT_EQ(run_step(reducer, engine, model).code(), Code::kMismatch);
    ASSERT_TRUE(set.compress(0, {.method = CompressionMethod::kPowerSgd}).is_ok());
    model.fill(rank, 1);
    const Status status = run_step(reducer, engine, model);
    ASSERT_TRUE(status.is_ok()) << status.message();
    expect_equal_everywhere(engine, model);
  });
}

TEST_P(GradientsWorld, ASetMayEndWithWorkInFlight) {
  World world(GetParam());
  world.run([](int rank, Engine& engine) {
    Model model;
    for (int round = 0; round < 5; ++round) {
      GradientReducer reducer(GradientSet(Model::description(), {}));
      ASSERT_TRUE(reducer.set().compress(0, {.method = CompressionMethod::kTopK}).is_ok());
      model.fill(rank, round);
      ASSERT_TRUE(reducer.ready(engine, {0, model.gradients[0].data(), false}).is_ok());
      reducer.abandon(&engine);
    }
    Request barrier;
    barrier.operation = Barrier{};
    ASSERT_TRUE(run_request(engine, barrier).is_ok());
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, GradientsWorld,
                         testing::Values(std::vector<int>{1}, std::vector<int>{3},
                                         std::vector<int>{2, 1}, std::vector<int>{2, 2}));

}  // namespace
}  // namespace hvd
