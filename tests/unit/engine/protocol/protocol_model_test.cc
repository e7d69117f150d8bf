// SPDX-License-Identifier: Apache-2.0
// What the protocol promises, checked on a model: the real Coordinator and Leaders, members in a
// few lines, and every message delivered at a random time (in order on each edge).
#include "protocol_model.h"
#include "../sanitized.h"

namespace hvd::protocol_model {
namespace {

constexpr Shape kShapes[] = {{1, 1}, {1, 2}, {1, 3}, {2, 1}, {2, 2}, {3, 1}, {3, 2}, {6, 1}};
constexpr unsigned kSeeds = kIsSanitized ? 40 : 400;

/// Runs `plan(shape, random)` for every shape and many seeds and checks what every plan promises.
/// Returns what happened so that the promises are worth something.
struct Seen {
  int frozen = 0;     ///< Times that buckets were.
  int evictions = 0;  ///< Times that ids were taken back.
};
template <typename MakePlan>
Seen check_promises(MakePlan&& plan) {
  Seen seen;
  for (const Shape& shape : kShapes) {
    for (unsigned seed = 0; seed < kSeeds; ++seed) {
      SCOPED_TRACE(format_text("{} nodes of {}, seed {}", shape.nodes, shape.local_size, seed));
      std::mt19937 random(seed);
      Model model(shape, plan(shape, random), seed);
      model.run();
      const std::vector<std::string>& log = model.member(0).log;
      seen.frozen += model.member(0).times_frozen;
      seen.evictions += model.member(0).times_evicted;
      EXPECT_FALSE(log.empty());
      EXPECT_EQ(log.back(), "shutdown") << "something is stuck";
      for (int rank = 0; rank < shape.size(); ++rank) {
        EXPECT_EQ(model.member(rank).log, log) << "rank " << rank << " follows another log";
        for (const std::string& name : model.plan().names) {
          const std::vector<Code>& outcomes = model.member(rank).outcomes[name];
          const auto uses = static_cast<std::size_t>(model.plan().uses_of(rank, name));
          EXPECT_EQ(outcomes.size(), uses) << "rank " << rank << ' ' << name;
          if (testing::Test::HasFailure()) return seen;
          for (std::size_t use = 0; use < uses; ++use) {
            const auto expected = model.plan().expected(shape.size(), name, static_cast<int>(use));
            EXPECT_EQ(outcomes[use], expected.value_or(outcomes[use]))
                << "rank " << rank << ' ' << name << " use " << use;
          }
        }
      }
    }
  }
  return seen;
}

TEST(Protocol, EveryUseRunsOnceInOneOrderWhateverTheOrderOfSubmission) {
  check_promises([](const Shape&, std::mt19937&) { return Plan{}; });
}

TEST(Protocol, ADescriptionThatAllRanksChangeStartsANewEpoch) {
  check_promises([](const Shape& shape, std::mt19937& random) {
    Plan plan;
    for (const std::string& name : plan.names) {
      for (int use = 0; use < plan.uses; ++use) {
        const int elements = 1 + static_cast<int>(random() % 2);
        for (int rank = 0; rank < shape.size(); ++rank) plan.elements[{rank, name, use}] = elements;
      }
    }
    return plan;
  });
}

TEST(Protocol, ADisagreementFailsThatUseOnEveryRankAndNoOther) {
  check_promises([](const Shape& shape, std::mt19937& random) {
    Plan plan;
    for (int i = 0; i < 2; ++i) {
      const int rank = static_cast<int>(random() % static_cast<unsigned>(shape.size()));
      const int use = static_cast<int>(random() % static_cast<unsigned>(plan.uses));
      plan.elements[{rank, plan.names[random() % plan.names.size()], use}] = 2;
    }
    return plan;
  });
}

/// A rank that has fewer uses of each name than the others, or as many.
void stop_early(Plan& plan, int rank, std::mt19937& random) {
  for (const std::string& name : plan.names) {
    plan.fewer_uses[{rank, name}] =
        static_cast<int>(random() % static_cast<unsigned>(plan.uses + 1));
  }
}

int any_rank(const Shape& shape, std::mt19937& random) {
  return static_cast<int>(random() % static_cast<unsigned>(shape.size()));
}

TEST(Protocol, WhatARankHadNotAnnouncedWhenItLeftFailsOnEveryOther) {
  check_promises([](const Shape& shape, std::mt19937& random) {
    Plan plan;
    plan.leavers = {any_rank(shape, random), any_rank(shape, random)};
    for (const int rank : plan.leavers) stop_early(plan, rank, random);
    return plan;
  });
}

/// Overlapping process sets whose names are those of the world.
Plan plan_with_sets(const Shape& shape, std::mt19937& random) {
  Plan plan;
  for (int set = 1; set <= 3; ++set) {
    RankSet ranks(shape.size());
    for (int rank = 0; rank < shape.size(); ++rank) {
      if (random() % 2 == 0) ranks.add(rank);
    }
    if (ranks.empty()) ranks.add(static_cast<int>(random() % static_cast<unsigned>(shape.size())));
    plan.sets.push_back(std::move(ranks));
    for (const char* name : {"a", "b", "once"}) plan.names.push_back(key_of(set, name));
  }
  return plan;
}

TEST(Protocol, ANameBelongsToItsProcessSetAndRunsOnTheWordOfItsRanksAlone) {
  check_promises(
      [](const Shape& shape, std::mt19937& random) { return plan_with_sets(shape, random); });
}

TEST(Protocol, ADisagreementInOneProcessSetIsNoneOfTheOthers) {
  check_promises([](const Shape& shape, std::mt19937& random) {
    Plan plan = plan_with_sets(shape, random);
    for (int i = 0; i < 3; ++i) {
      const int rank = static_cast<int>(random() % static_cast<unsigned>(shape.size()));
      const int use = static_cast<int>(random() % static_cast<unsigned>(plan.uses));
      plan.elements[{rank, plan.names[random() % plan.names.size()], use}] = 2;
    }
    return plan;
  });
}

TEST(Protocol, ARankThatLeavesFailsOnlyTheProcessSetsItIsIn) {
  check_promises([](const Shape& shape, std::mt19937& random) {
    Plan plan = plan_with_sets(shape, random);
    plan.leavers = {any_rank(shape, random)};
    for (const int rank : plan.leavers) stop_early(plan, rank, random);
    return plan;
  });
}

TEST(Protocol, RanksThatJoinNeedNotAnnounceWhatTheOthersReduce) {
  check_promises([](const Shape& shape, std::mt19937& random) {
    Plan plan;
    plan.all_join = true;
    for (int rank = 0; rank < shape.size(); ++rank) {
      if (random() % 2 == 0) stop_early(plan, rank, random);
    }
    return plan;
  });
}

TEST(Protocol, AJoinThatARankLeavesInsteadEndsForAll) {
  check_promises([](const Shape& shape, std::mt19937& random) {
    Plan plan;
    plan.all_join = true;
    plan.leavers = {any_rank(shape, random)};
    for (int rank = 0; rank < shape.size(); ++rank) {
      if (random() % 2 == 0) stop_early(plan, rank, random);
    }
    return plan;
  });
}

TEST(Protocol, IdsOfARemovedProcessSetServeOthers) {
  for (const Shape& shape : kShapes) {
    for (unsigned seed = 0; seed < kSeeds / 4; ++seed) {
      std::mt19937 random(seed);
      Plan plan = plan_with_sets(shape, random);
      plan.all_stay = true;
      Model model(shape, plan, seed);
      model.run();
      model.remove_set(1);
      for (const char* name : {"c", "2/c", "d", "2/d", "3/d", "c", "2/c"}) {
        model.use_once_more(name);
        for (int rank = 0; rank < shape.size(); ++rank) {
          if (!plan.has_rank(name, rank)) continue;
          ASSERT_EQ(model.member(rank).outcomes[name].back(), Code::kOk) << name;
        }
      }
      EXPECT_EQ(model.member(0).log.back(), model.member(shape.size() - 1).log.back());
    }
  }
}

/// Worlds with buckets, so that their promises are worth something.
constexpr int kEnough = kSeeds / 10;

/// Names of which buckets are made, in enough steps that they freeze.
Plan plan_on_gpu() {
  Plan plan;
  plan.names = {"a", "b", "c", "d"};
  plan.uses = 6;
  plan.on_gpu = plan.in_steps = true;
  return plan;
}

TEST(Protocol, BucketsOfGpuMemoryChangeNothingOfWhatEachUseComesTo) {
  const Seen seen = check_promises([](const Shape&, std::mt19937&) { return plan_on_gpu(); });
  EXPECT_GT(seen.frozen, kEnough);
}

TEST(Protocol, BucketsThawForRanksThatLeave) {
  const Seen seen = check_promises([](const Shape& shape, std::mt19937& random) {
    Plan plan = plan_on_gpu();
    plan.leavers = {any_rank(shape, random)};
    for (const int rank : plan.leavers) stop_early(plan, rank, random);
    return plan;
  });
  EXPECT_GT(seen.frozen, kEnough);
}

TEST(Protocol, BucketsThawForRanksThatJoin) {
  const Seen seen = check_promises([](const Shape& shape, std::mt19937& random) {
    Plan plan = plan_on_gpu();
    plan.all_join = true;
    for (int rank = 0; rank < shape.size(); ++rank) {
      if (random() % 2 == 0) stop_early(plan, rank, random);
    }
    return plan;
  });
  EXPECT_GT(seen.frozen, kEnough);
}

TEST(Protocol, ADisagreementAboutANameOfABucketIsOneOfThatNameAlone) {
  const Seen seen = check_promises([](const Shape& shape, std::mt19937& random) {
    Plan plan = plan_on_gpu();
    const int use = static_cast<int>(random() % static_cast<unsigned>(plan.uses));
    plan.elements[{any_rank(shape, random), plan.names[random() % plan.names.size()], use}] = 2;
    return plan;
  });
  EXPECT_GT(seen.frozen, kEnough);
}

/// Few ids for many names, so that they are taken back all the time.
Plan with_few_ids(Plan plan, std::mt19937& random) {
  plan.names.insert(plan.names.end(), {"c", "d", "e"});
  plan.uses = 4;
  plan.ids = 1 + static_cast<std::uint32_t>(random() % 3);
  plan.idle_uses = random() % 3;
  return plan;
}

TEST(Protocol, IdsThatAreTakenBackChangeNothingOfWhatEachUseComesTo) {
  const Seen seen = check_promises(
      [](const Shape&, std::mt19937& random) { return with_few_ids(Plan{}, random); });
  EXPECT_GT(seen.evictions, kEnough);
}

TEST(Protocol, IdsAreTakenBackFromNamesThatChangeAndOfWhichRanksDisagree) {
  const Seen seen = check_promises([](const Shape& shape, std::mt19937& random) {
    Plan plan = with_few_ids(Plan{}, random);
    for (const std::string& name : plan.names) {
      for (int use = 0; use < plan.uses; ++use) {
        const int elements = 1 + static_cast<int>(random() % 2);
        for (int rank = 0; rank < shape.size(); ++rank) plan.elements[{rank, name, use}] = elements;
      }
    }
    const int use = static_cast<int>(random() % static_cast<unsigned>(plan.uses));
    plan.elements[{any_rank(shape, random), plan.names[random() % plan.names.size()], use}] = 3;
    return plan;
  });
  EXPECT_GT(seen.evictions, kEnough);
}

TEST(Protocol, IdsAreTakenBackInEachProcessSetForTheOthers) {
  const Seen seen = check_promises([](const Shape& shape, std::mt19937& random) {
    return with_few_ids(plan_with_sets(shape, random), random);
  });
  EXPECT_GT(seen.evictions, kEnough);
}

TEST(Protocol, IdsAreTakenBackWhileRanksLeaveOrJoin) {
  const Seen seen = check_promises([](const Shape& shape, std::mt19937& random) {
    Plan plan = with_few_ids(Plan{}, random);
    plan.all_join = random() % 2 == 0;
    if (!plan.all_join) plan.leavers = {any_rank(shape, random)};
    for (int rank = 0; rank < shape.size(); ++rank) {
      if (plan.all_join ? random() % 2 == 0 : plan.leavers.contains(rank)) {
        stop_early(plan, rank, random);
      }
    }
    return plan;
  });
  EXPECT_GT(seen.evictions, kEnough);
}

TEST(Protocol, IdsAreTakenBackBesideFrozenBuckets) {
  const Seen seen = check_promises([](const Shape&, std::mt19937& random) {
    Plan plan = plan_on_gpu();
    plan.ids = 2 + static_cast<std::uint32_t>(random() % 4);
    plan.idle_uses = random() % 6;
    return plan;
  });
  EXPECT_GT(seen.frozen, 0);
  EXPECT_GT(seen.evictions, kEnough);
}

TEST(Protocol, OnceNamesAreKnownALeaderHearsItsMembersAndItsFanOutOncePerUse) {
  constexpr int kUses = 50;
  for (const Shape& shape : {Shape{1, 4}, Shape{6, 2}, Shape{22, 1}, Shape{30, 3}}) {
    Plan plan;
    plan.all_stay = true;
    Model model(shape, plan, 1);
    model.run();
    for (int node = 0; node < shape.nodes; ++node) {
      model.at(node).heard_from_below = model.at(node).heard_from_above = 0;
    }
    for (int use = 0; use < kUses; ++use) model.use_once_more(use % 2 == 0 ? "a" : "b");
    for (int node = 0; node < shape.nodes; ++node) {
      const auto children = static_cast<int>(shape.children(node).size());
      EXPECT_LE(children, kFanOut);
      EXPECT_EQ(model.at(node).heard_from_below, kUses * (children + shape.local_size - 1));
      EXPECT_EQ(model.at(node).heard_from_above, node == 0 ? 0 : kUses);
    }
  }
}

}  // namespace
}  // namespace hvd::protocol_model
