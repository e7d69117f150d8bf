// SPDX-License-Identifier: Apache-2.0
// Programs with ever new names, and without names: what ranks announce in full, and keep in mind.
#include <gmock/gmock.h>

#include <string>

#include "engine/protocol/board.h"
#include "engine/request/submission.h"
#include "world/world.h"

namespace hvd {
namespace {

using testing::HasSubstr;

class NamesWorld : public testing::TestWithParam<std::vector<int>> {};

/// Sums one element of each name, many at a time. Empty names are none.
void sum_all(int rank, Engine& engine, const std::vector<std::string>& names) {
  constexpr std::size_t kAtOnce = 50;
  const int size = engine.world().size;
  for (std::size_t begin = 0; begin < names.size(); begin += kAtOnce) {
    const std::size_t count = std::min(kAtOnce, names.size() - begin);
    std::vector<std::vector<float>> values(count);
    std::vector<Engine::Handle> handles;
    for (std::size_t i = 0; i < count; ++i) {
      values[i].assign(1, static_cast<float>(rank) + static_cast<float>(i));
      auto handle = engine.submit(allreduce_request(names[begin + i], values[i]));
      ASSERT_TRUE(handle.is_ok()) << handle.status().message();
      handles.push_back(handle.value());
    }
    for (std::size_t i = 0; i < count; ++i) {
      const Status status = engine.wait(handles[i], soon());
      ASSERT_TRUE(status.is_ok()) << status.message();
      ASSERT_EQ(values[i][0],
                static_cast<float>(size * (size - 1) / 2 + size * static_cast<int>(i)));
    }
    engine.release(handles);
  }
}

std::vector<std::string> numbered(const std::string& prefix, int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back(prefix + std::to_string(i));
  return names;
}

TEST(Names, OfALaterModelGetTheIdsOfOneThatIsUsedNoMore) {
  World world({2, 1});
  world.run([](int rank, Engine& engine) {
    const std::vector<std::string> first = numbered("first model.", 3'000);
    for (int step = 0; step < 2; ++step) sum_all(rank, engine, first);
    EXPECT_EQ(engine.statistics().evictions, 0U);
    sum_all(rank, engine, numbered("once.", 17'000));
    EXPECT_LE(engine.statistics().names, Board::kMaxIds) << "what comes once is forgotten";
    const std::vector<std::string> second = numbered("second model.", 3'000);
    bool is_steady = false;
    for (int step = 0; step < 15 && !is_steady; ++step) {
      const std::uint64_t before = engine.statistics().in_full;
      sum_all(rank, engine, second);
      is_steady = engine.statistics().in_full == before;
      if (testing::Test::HasFatalFailure()) return;
    }
    EXPECT_TRUE(is_steady) << "names are announced in full for ever";
    EXPECT_GT(engine.statistics().evictions, 0U);
    EXPECT_LE(engine.statistics().names, Board::kMaxIds);
  });
}

TEST(Names, ANewOneInEachStepDisturbsNoOther) {
  World world({2});
  world.run([](int rank, Engine& engine) {
    constexpr int kSteps = 20'000 / 50;
    const std::vector<std::string> gradients = numbered("gradient.", 10);
    for (int step = 0; step < kSteps; ++step) {
      std::vector<std::string> names = gradients;
      for (const std::string& name : numbered(format_text("step {}.", step), 50)) {
        names.push_back(name);
      }
      sum_all(rank, engine, names);
      if (testing::Test::HasFatalFailure()) return;
    }
    EXPECT_EQ(engine.statistics().in_full, 10U + kSteps * 50);
    EXPECT_LE(engine.statistics().names, Board::kMaxIds);
  });
}

TEST(Names, WhatHasNoneIsAnnouncedInFullOncePerPlaceInTheProgram) {
  World world({2, 1});
  world.run([](int rank, Engine& engine) {
    sum_all(rank, engine, std::vector<std::string>(20'000));
    EXPECT_EQ(engine.statistics().in_full, Submission::kPlaces);
    EXPECT_EQ(engine.statistics().names, Submission::kPlaces);
    // Steps of four calls that differ, one of them a broadcast.
    for (int step = 0; step < 200; ++step) {
      for (const std::size_t count : {3, 900, 3, 17}) {
        std::vector<float> values(count, static_cast<float>(rank));
        Request request = allreduce_request("", values);
        if (count == 17) request.operation = Broadcast{1};
        const Status status = run_request(engine, request);
        ASSERT_TRUE(status.is_ok()) << status.message();
        const float sum = static_cast<float>(engine.world().size * (engine.world().size - 1) / 2);
        ASSERT_EQ(values.back(), count == 17 ? 1.0F : sum);
      }
    }
    // The allreduces once more, where steps of three begin; each place may be in the way of one
    // use.
    EXPECT_LE(engine.statistics().in_full, 4 * Submission::kPlaces);
    EXPECT_EQ(engine.statistics().names, 2 * Submission::kPlaces);
  });
}

TEST_P(NamesWorld, StepsThatFitIntoNoPlacesRunAsBefore) {
  World world(GetParam());
  world.run([](int rank, Engine& engine) {
    for (int call = 0; call < 500; ++call) {
      std::vector<float> values(static_cast<std::size_t>(1 + call % 7), static_cast<float>(rank));
      const Status status = run_request(engine, allreduce_request("", values));
      ASSERT_TRUE(status.is_ok()) << status.message();
    }
    EXPECT_EQ(engine.statistics().names, Submission::kPlaces);
  });
}

TEST_P(NamesWorld, MoreCallsThanPlacesMayBeInFlight) {
  World world(GetParam());
  world.run([](int rank, Engine& engine) {
    constexpr std::size_t kCalls = 3 * Submission::kPlaces + 7;
    std::vector<std::vector<float>> values(kCalls);
    std::vector<Engine::Handle> handles;
    for (std::size_t i = 0; i < kCalls; ++i) {
      values[i].assign(1 + i % 5, static_cast<float>(rank));
      handles.push_back(engine.submit(allreduce_request("", values[i])).value());
    }
    const float sum = static_cast<float>(engine.world().size * (engine.world().size - 1) / 2);
    for (std::size_t i = kCalls; i-- > 0;) {
      ASSERT_TRUE(engine.wait(handles[i], soon()).is_ok());
      ASSERT_EQ(values[i].back(), sum);
    }
    engine.release(handles);
  });
}

TEST_P(NamesWorld, ADisagreementWithoutANameSaysWhichCallItIs) {
  World world(GetParam());
  world.run([](int rank, Engine& engine) {
    constexpr std::uint64_t kBad = Submission::kPlaces + 10;
    for (std::uint64_t call = 1; call <= kBad + 10; ++call) {
      const bool differs = call == kBad && rank == 1;
      std::vector<float> values(differs ? 2 : 4, 1.0F);
      const Status status = run_request(engine, allreduce_request("", values));
      if (call != kBad) {
        ASSERT_TRUE(status.is_ok()) << status.message();
        continue;
      }
      EXPECT_EQ(status.code(), Code::kMismatch);
      for (const std::string& words :
           {std::string("'allreduce.noname.9'"), std::string("rank 1 has [2]"),
            format_text("number {} of the allreduce calls of rank {}", kBad, rank)}) {
        EXPECT_THAT(status.message(), HasSubstr(words));
      }
    }
  });
}

TEST_P(NamesWorld, ARankThatJoinsCountsTheCallsOfTheOthers) {
  World world(GetParam());
  world.run([](int rank, Engine& engine) {
    for (int round = 0; round < 3; ++round) {
      const int calls = rank == 0 ? 10 : 2 * static_cast<int>(Submission::kPlaces) + 30 + round;
      for (int call = 0; call < calls; ++call) {
        std::vector<float> values(3, 1.0F);
        const Status status = run_request(engine, allreduce_request("", values));
        ASSERT_TRUE(status.is_ok()) << status.message();
      }
      const auto last = engine.join(0, false, soon());
      ASSERT_TRUE(last.is_ok()) << last.status().message();
    }
    std::vector<float> values(3, 1.0F);
    ASSERT_TRUE(run_request(engine, allreduce_request("", values)).is_ok());
    EXPECT_EQ(values[0], static_cast<float>(engine.world().size));
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, NamesWorld,
                         testing::Values(std::vector<int>{2}, std::vector<int>{3},
                                         std::vector<int>{2, 1}, std::vector<int>{1, 1, 1}));

}  // namespace
}  // namespace hvd
