// SPDX-License-Identifier: Apache-2.0
// Training steps that a rank leaves in the middle, and whose gradients end then.
#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <optional>
#include <string>

#include "optim/gradient_reducer.h"
#include "world/vanishing.h"
#include "world/world.h"

namespace hvd {
namespace {

using testing::HasSubstr;

constexpr std::size_t kElements = 50'000;
constexpr std::size_t kGradients = 3;

std::vector<GradientSet::Gradient> three_matrices() {
  std::vector<GradientSet::Gradient> gradients;
  for (const char* name : {"first", "second", "third"}) {
    gradients.push_back({name, Tensor{.shape = {200, 250}}});
  }
  return gradients;
}

struct Memory {
  std::array<Vanishing, kGradients> gradients{Vanishing(kElements), Vanishing(kElements),
                                              Vanishing(kElements)};
  explicit Memory(float value) {
    for (const Vanishing& one : gradients) {
      for (float& element : one.values()) element = value;
    }
  }
};

struct Way {
  std::string name;
  CompressionMethod method = CompressionMethod::kNone;
  bool is_difference = false;
  bool is_clipped = false;
};

std::ostream& operator<<(std::ostream& out, const Way& way) { return out << way.name; }

/// A set of its own for each step, as by a scope that an exception may leave.
std::unique_ptr<GradientReducer> make_reducer(const Way& way) {
  GradientSet::Options options;
  if (way.is_clipped) options.clip_norm = 1;
  auto reducer = std::make_unique<GradientReducer>(GradientSet(three_matrices(), options));
  for (std::size_t i = 0; i < kGradients; ++i) {
    EXPECT_TRUE(reducer->set().compress(i, {.method = way.method, .ratio = 0.1}).is_ok());
  }
  if (way.is_clipped) {
    EXPECT_TRUE(reducer->set().share(1, GradientSet::Sharing::kLocal).is_ok());
  }
  return reducer;
}

Status send(GradientReducer& reducer, Engine& engine, const Way& way, const Memory& memory,
            std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto values = memory.gradients[i].values();
    if (way.is_difference) HVD_TRY(reducer.set().start(i, values.data()));
    values[0] += 1;
    HVD_TRY(reducer.ready(engine, {i, values.data(), false}));
  }
  return Status::ok();
}

/// The step up to `point`: so many gradients, then so many looks at it. False: it is over.
bool go_to(GradientReducer& reducer, Engine& engine, const Way& way, const Memory& memory,
           std::size_t point) {
  EXPECT_TRUE(send(reducer, engine, way, memory, std::min(point, kGradients)).is_ok());
  for (std::size_t look = kGradients; look < point; ++look) {
    if (reducer.wait(engine, Deadline::after({})).code() != Code::kTimeout) return false;
  }
  return true;
}

class LeftStep : public testing::TestWithParam<Way> {};

TEST_P(LeftStep, IsToldToTheOthersAndTouchesNothingLater) {
  for (std::size_t point = 1; point <= kGradients + 3; ++point) {
    World world({2, 1});
    world.run([&](int rank, Engine& engine) {
      const auto reducer = make_reducer(GetParam());
      std::optional<Memory> memory(1.0F);
      if (rank == 1) {
        if (go_to(*reducer, engine, GetParam(), *memory, point)) {
          reducer->settle(engine, Deadline::after(std::chrono::milliseconds(5)), "ValueError: x");
        }
        memory.reset();
        engine.abort("ValueError: x");  // what came in time leaves the job whole
        return;
      }
      Status status = send(*reducer, engine, GetParam(), *memory, kGradients);
      if (status.is_ok()) status = reducer->wait(engine, soon());
      memory.reset();
      if (status.is_ok()) return;  // rank 1 had given all
      EXPECT_EQ(status.code(), Code::kPeerLost) << point << ": " << status.message();
      EXPECT_THAT(status.message(), HasSubstr("rank 1 "));
      EXPECT_THAT(status.message(), HasSubstr("ValueError: x"));
    });
  }
}

TEST_P(LeftStep, ByAllRanksLeavesTheJobWhole) {
  World world({2, 1});
  world.run([&](int, Engine& engine) {
    for (std::size_t point = 1; point <= kGradients; ++point) {
      const auto reducer = make_reducer(GetParam());
      const Memory memory(1.0F);
      ASSERT_TRUE(go_to(*reducer, engine, GetParam(), memory, point));
      reducer->settle(engine, soon(), "never told");
      EXPECT_TRUE(reducer->is_idle());
    }
    const auto reducer = make_reducer({});
    const Memory memory(static_cast<float>(1 + engine.world().rank));
    ASSERT_TRUE(send(*reducer, engine, {}, memory, kGradients).is_ok());
    ASSERT_TRUE(reducer->wait(engine, soon()).is_ok());
    EXPECT_EQ(memory.gradients[2].values()[0], 3.0F);
    EXPECT_EQ(memory.gradients[2].values()[kElements - 1], 2.0F);
  });
}

INSTANTIATE_TEST_SUITE_P(, LeftStep,
                         testing::Values(Way{"Plain"},
                                         Way{"Float8", CompressionMethod::kFloat8E4m3},
                                         Way{"TopK", CompressionMethod::kTopK},
                                         Way{"PowerSgd", CompressionMethod::kPowerSgd},
                                         Way{.name = "Difference", .is_difference = true},
                                         Way{"DifferenceTopK", CompressionMethod::kTopK, true},
                                         Way{.name = "ClippedWithLocal", .is_clipped = true}),
                         [](const auto& info) { return info.param.name; });

// Nobody else submits anything before the rank has left: it must neither wait for them nor leave
// them without a word.
TEST(LeftSteps, EndTheJobWhereNoOtherRankComes) {
  World world({1, 1});
  std::atomic<bool> has_left{false};
  world.run([&](int rank, Engine& engine) {
    const auto reducer = make_reducer({});
    std::optional<Memory> memory(1.0F);
    if (rank == 1) {
      ASSERT_TRUE(send(*reducer, engine, {}, *memory, 2).is_ok());
      reducer->settle(engine, Deadline::after({}), "KeyError: y");
      EXPECT_TRUE(reducer->is_idle());
      memory.reset();
      has_left.store(true);
      has_left.notify_all();
      return;
    }
    has_left.wait(false);
    Status status = send(*reducer, engine, {}, *memory, kGradients);
    if (status.is_ok()) status = reducer->wait(engine, soon());
    EXPECT_EQ(status.code(), Code::kPeerLost) << status.message();
    EXPECT_THAT(status.message(), HasSubstr("rank 1 "));
    EXPECT_THAT(status.message(), HasSubstr("KeyError: y"));
  });
}

}  // namespace
}  // namespace hvd
