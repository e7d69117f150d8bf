// SPDX-License-Identifier: Apache-2.0
// Process sets: who may use them, that they do not disturb each other, and how they end.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <string>

#include "world/world.h"

namespace hvd {
namespace {

using testing::HasSubstr;

class SetsWorld : public testing::TestWithParam<std::vector<int>> {};

/// Adds a set on every rank and returns its number.
int add_everywhere(World& world, const std::vector<int>& ranks) {
  std::vector<int> ids(static_cast<std::size_t>(world.size()), -1);
  world.run([&](int rank, Engine& engine) {
    const auto id = engine.add_process_set(ranks, soon());
    ASSERT_TRUE(id.is_ok()) << id.status().message();
    ids[static_cast<std::size_t>(rank)] = id.value();
  });
  for (const int id : ids) EXPECT_EQ(id, ids.front());
  return ids.front();
}

bool has(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

Request set_request(int process_set, std::string name, std::vector<float>& values) {
  Request request = allreduce_request(std::move(name), values);
  request.process_set = process_set;
  return request;
}

TEST_P(SetsWorld, EveryPairReducesAmongItselfUnderTheSameName) {
  World world(GetParam());
  std::vector<std::vector<int>> sets;
  for (int a = 0; a < world.size(); ++a) {
    for (int b = a + 1; b < world.size(); ++b) sets.push_back({b, a});  // in any order
  }
  if (world.size() == 2) sets = {{1}};
  std::vector<int> ids;
  for (const auto& ranks : sets) ids.push_back(add_everywhere(world, ranks));
  for (std::size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(ids[i], static_cast<int>(i) + 1);
  for (const std::size_t count : {std::size_t{1}, std::size_t{5'000}, std::size_t{300'000}}) {
    world.run([&](int rank, Engine& engine) {
      std::vector<std::vector<float>> values;
      std::vector<Engine::Handle> handles;
      values.reserve(sets.size());
      for (std::size_t i = 0; i < sets.size(); ++i) {
        // Half of the ranks submit backwards.
        const std::size_t set = rank % 2 == 0 ? i : sets.size() - 1 - i;
        values.emplace_back(count, static_cast<float>(rank + 1));
        if (!has(sets[set], rank)) continue;
        const auto handle = engine.submit(set_request(ids[set], "x", values.back()));
        ASSERT_TRUE(handle.is_ok()) << handle.status().message();
        handles.push_back(handle.value());
      }
      for (const auto handle : handles) ASSERT_TRUE(engine.wait(handle, soon()).is_ok());
      for (std::size_t i = 0; i < sets.size(); ++i) {
        const std::size_t set = rank % 2 == 0 ? i : sets.size() - 1 - i;
        if (!has(sets[set], rank)) continue;
        const int sum = std::accumulate(sets[set].begin(), sets[set].end(), 0) +
                        static_cast<int>(sets[set].size());
        EXPECT_EQ(values[i].front(), static_cast<float>(sum));
        EXPECT_EQ(values[i].back(), static_cast<float>(sum));
      }
    });
  }
}

TEST_P(SetsWorld, RootsAreRanksOfTheJobAndRowsComeInTheOrderOfTheSet) {
  World world(GetParam());
  const int last = world.size() - 1;
  const std::vector<int> ranks = {last, 1};
  if (last == 1) return;
  const int id = add_everywhere(world, ranks);
  world.run([&](int rank, Engine& engine) {
    if (!has(ranks, rank)) return;
    std::vector<float> values(3, static_cast<float>(rank));
    Request broadcast = set_request(id, "b", values);
    broadcast.operation = Broadcast{last};
    EXPECT_TRUE(run_request(engine, broadcast).is_ok());
    EXPECT_EQ(values, std::vector<float>(3, static_cast<float>(last)));

    values.assign(static_cast<std::size_t>(rank), static_cast<float>(rank));
    Request gather = set_request(id, "g", values);
    gather.operation = Allgather{};
    const auto handle = engine.submit(gather);
    ASSERT_TRUE(handle.is_ok()) << handle.status().message();
    ASSERT_TRUE(engine.wait(handle.value(), soon()).is_ok());
    const auto gathered = engine.gathered(handle.value(), 0);
    ASSERT_TRUE(gathered.is_ok());
    EXPECT_EQ(gathered.value()->rows, (std::vector<std::int64_t>{1, last}));
    engine.release(handle.value());

    Request barrier;
    barrier.process_set = id;
    barrier.operation = Barrier{};
    EXPECT_TRUE(run_request(engine, barrier).is_ok());

    Request wrong = set_request(id, "w", values);
    wrong.operation = Broadcast{0};
    const Status status = run_request(engine, wrong);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("root 0 is not in process set 1"));
  });
}

TEST_P(SetsWorld, WrongUseIsAnErrorAtOnce) {
  World world(GetParam());
  const int id = add_everywhere(world, {0});
  world.run([&](int rank, Engine& engine) {
    const auto add = [&](std::vector<int> ranks) {
      const auto added = engine.add_process_set(std::move(ranks), soon());
      EXPECT_EQ(added.status().code(), Code::kInvalidArgument);
      return added.status().message();
    };
    EXPECT_THAT(add({}), HasSubstr("at least one rank"));
    EXPECT_THAT(add({0, 1, 0}), HasSubstr("rank 0 is listed twice"));
    EXPECT_THAT(add({0, 99}), HasSubstr("99 is not a rank of the job"));
    EXPECT_THAT(add({0}), HasSubstr(format_text("process set {} already", id)));
    EXPECT_THAT(add(engine.process_set_ranks(0).value()), HasSubstr("process set 0 already"));
    std::vector<float> values(1);
    if (rank == 1) {
      const Status status = run_request(engine, set_request(id, "x", values));
      EXPECT_EQ(status.code(), Code::kInvalidArgument);
      EXPECT_THAT(status.message(), HasSubstr("rank 1"));
      EXPECT_THAT(status.message(), HasSubstr("not in process set 1 (ranks [0])"));
    }
    EXPECT_THAT(run_request(engine, set_request(7, "x", values)).message(),
                HasSubstr("there is no process set 7"));
    EXPECT_THAT(engine.remove_process_set(0, soon()).message(), HasSubstr("cannot be removed"));
    EXPECT_THAT(engine.remove_process_set(7, soon()).message(), HasSubstr("no process set 7"));
    EXPECT_EQ(engine.process_sets(), (std::vector<int>{0, id}));
    EXPECT_THAT(engine.describe(), HasSubstr("process set 1 (ranks [0])"));
  });
}

TEST_P(SetsWorld, RanksThatDisagreeGetOneErrorAndMayTryAgain) {
  World world(GetParam());
  world.run([&](int rank, Engine& engine) {
    const auto wrong =
        engine.add_process_set(rank == 0 ? std::vector<int>{0} : std::vector<int>{1}, soon());
    EXPECT_EQ(wrong.status().code(), Code::kMismatch);
    EXPECT_THAT(wrong.status().message(), HasSubstr("rank 0 wants to add [0]"));
    EXPECT_THAT(wrong.status().message(), HasSubstr("add [1]"));
    const auto right = engine.add_process_set({0}, soon());
    ASSERT_TRUE(right.is_ok()) << right.status().message();
    EXPECT_EQ(right.value(), 1);
  });
}

TEST_P(SetsWorld, ARankThatComesTooLateIsToldSoAndMayTryAgain) {
  World world(GetParam());
  const int late = world.size() - 1;
  world.run([&](int rank, Engine& engine) {
    if (rank == late) return;
    const auto early = engine.add_process_set({0}, Deadline::after(std::chrono::milliseconds(50)));
    EXPECT_EQ(early.status().code(), Code::kTimeout);
  });
  world.run([&](int rank, Engine& engine) {
    if (rank != late) return;
    const auto status = engine.add_process_set({0}, soon()).status();
    EXPECT_EQ(status.code(), Code::kTimeout);
    EXPECT_THAT(status.message(), HasSubstr("gave up"));
  });
  EXPECT_EQ(add_everywhere(world, {0}), 1);
}

TEST_P(SetsWorld, RemovedSetsGiveEverythingBack) {
  World world(GetParam());
  std::vector<int> ranks(static_cast<std::size_t>(world.size() - 1));
  std::iota(ranks.begin(), ranks.end(), 1);
  for (int round = 1; round <= 10; ++round) {
    const int id = add_everywhere(world, ranks);
    EXPECT_EQ(id, round) << "numbers never come again";
    world.run([&](int rank, Engine& engine) {
      std::vector<float> values(10, 1.0F);
      for (int i = 0; has(ranks, rank) && i < 3; ++i) {
        for (const char* name : {"a", "b"}) {
          ASSERT_TRUE(run_request(engine, set_request(id, name, values)).is_ok());
        }
      }
      const Status removed = engine.remove_process_set(id, soon());
      ASSERT_TRUE(removed.is_ok()) << removed.message();
      EXPECT_EQ(engine.process_sets(), std::vector<int>{0});
      EXPECT_EQ(run_request(engine, set_request(id, "a", values)).code(), Code::kInvalidArgument);
      ASSERT_TRUE(run_request(engine, allreduce_request("a", values)).is_ok());
    });
  }
}

TEST_P(SetsWorld, ASetWithWorkInFlightStays) {
  World world(GetParam());
  if (world.size() == 2) return;
  const int id = add_everywhere(world, {0, 1});
  world.run([&](int rank, Engine& engine) {
    std::vector<float> values(1, 1.0F);
    Result<Engine::Handle> handle = Engine::Handle{0};
    if (rank == 0) handle = engine.submit(set_request(id, "x", values));
    const Status status = engine.remove_process_set(id, soon());
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("rank 0 has 1 operations of it in flight"));
    if (rank == 1) {
      EXPECT_TRUE(run_request(engine, set_request(id, "x", values)).is_ok());
    }
    if (rank == 0) {
      EXPECT_TRUE(engine.wait(handle.value(), soon()).is_ok());
    }
  });
}

TEST_P(SetsWorld, ALargeBatchOfOneSetDoesNotHoldUpAnother) {
  World world(GetParam());
  if (world.size() < 3) return;
  const int large = add_everywhere(world, {0, 1});
  const int small = add_everywhere(world, {0, 2});
  std::atomic<bool> small_is_done{false};
  world.run([&](int rank, Engine& engine) {
    std::vector<float> huge(std::size_t{4} << 20, 1.0F);
    std::vector<float> tiny(1, 1.0F);
    if (rank == 1) {
      // The large batch cannot end before the small one has.
      const Deadline deadline = soon();
      while (!small_is_done.load() && !deadline.has_passed()) std::this_thread::yield();
      EXPECT_TRUE(run_request(engine, set_request(large, "huge", huge)).is_ok());
      return;
    }
    Result<Engine::Handle> handle = Engine::Handle{0};
    if (rank == 0) handle = engine.submit(set_request(large, "huge", huge));
    if (rank <= 2) {
      for (int i = 0; i < 20; ++i) {
        ASSERT_TRUE(run_request(engine, set_request(small, "tiny", tiny)).is_ok());
      }
    }
    if (rank == 0) {
      small_is_done.store(true);
      EXPECT_TRUE(engine.wait(handle.value(), soon()).is_ok());
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, SetsWorld,
                         testing::Values(std::vector<int>{2}, std::vector<int>{4},
                                         std::vector<int>{1, 1, 1}, std::vector<int>{3, 1},
                                         std::vector<int>{2, 1, 2}));

TEST(Sets, ADeathDuringAnAddIsALossForAll) {
  World world({2, 2});
  world.run([&](int rank, Engine& engine) {
    if (rank == 3) {
      engine.abort("it had enough");
      return;
    }
    const auto added = engine.add_process_set({0, 1, 2, 3}, soon());
    EXPECT_FALSE(added.is_ok());
  });
}

TEST(Sets, ALossEndsWhatEverySetHasInFlight) {
  World world({2, 1});
  const int id = add_everywhere(world, {0, 1});
  world.run([&](int rank, Engine& engine) {
    std::vector<float> values(1);
    if (rank == 2) {
      engine.abort("the test says so");
      return;
    }
    if (rank == 1) return;
    const Status status = run_request(engine, set_request(id, "x", values));
    EXPECT_EQ(status.code(), Code::kPeerLost) << status.message();
    EXPECT_EQ(engine.add_process_set({1, 2}, soon()).status().code(), Code::kPeerLost);
  });
}

TEST(Sets, ARankThatHasLeftHoldsUpNoSetOfOthers) {
  World world({3});
  const int id = add_everywhere(world, {0, 1});
  world.run([&](int rank, Engine& engine) {
    if (rank == 2) {
      EXPECT_EQ(engine.shutdown(Deadline::after(std::chrono::milliseconds(10))).code(),
                Code::kTimeout);
      world.kill(2);
      return;
    }
    // Names that fill the ring of the log, of which rank 2 reads nothing any more, several times.
    std::vector<float> values(1);
    for (int i = 0; i < 400; ++i) {
      const std::string name = std::to_string(i) + std::string(2000, 'x');
      const Status status = run_request(engine, set_request(id, name, values));
      ASSERT_TRUE(status.is_ok()) << status.message();
    }
  });
}

TEST(Sets, TheFirstRankOfANodeDoesNotLeaveTheOthersInSilence) {
  World world({3});
  const int id = add_everywhere(world, {1, 2});
  world.run([&](int rank, Engine& engine) {
    if (rank == 0) {
      EXPECT_EQ(engine.shutdown(Deadline::after(std::chrono::milliseconds(10))).code(),
                Code::kTimeout);
      world.kill(0);
      return;
    }
    std::vector<float> values(1);
    Status status;
    while (status.is_ok()) status = run_request(engine, set_request(id, "x", values));
    EXPECT_EQ(status.code(), Code::kAborted) << status.message();
    EXPECT_THAT(status.message(), testing::HasSubstr("rank 0 on host "));
  });
}

}  // namespace
}  // namespace hvd
