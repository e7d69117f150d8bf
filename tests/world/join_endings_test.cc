// SPDX-License-Identifier: Apache-2.0
// Joins among everything else: queues, changes of the sets, ranks that leave, many at once.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <random>
#include <string>

#include "world/world.h"

namespace hvd {
namespace {

using testing::HasSubstr;

/// Joins process set 0 and gives up waiting; the others wait in `wait_for` until then.
void join_early(Engine& engine, std::atomic<bool>& has_joined) {
  const auto early = engine.join(0, false, Deadline::after(std::chrono::milliseconds(1)));
  EXPECT_EQ(early.status().code(), Code::kTimeout) << early.status().message();
  has_joined.store(true);
}
void wait_for(const std::atomic<bool>& has_joined) {
  const Deadline deadline = soon();
  while (!has_joined.load() && !deadline.has_passed()) std::this_thread::yield();
}

class JoinEndings : public testing::TestWithParam<std::vector<int>> {};

TEST_P(JoinEndings, WhatQueuesRunsBeforeTheJoinOfOthersEnds) {
  World world(GetParam());
  for (int round = 0; round < 10; ++round) {
    world.run([&](int rank, Engine& engine) {
      // Each rank waits for the word of the others about its own name.
      std::vector<std::vector<float>> uses(4, std::vector<float>(3, static_cast<float>(rank)));
      std::vector<Engine::Handle> handles;
      for (auto& values : uses) {
        Request request = allreduce_request(format_text("of rank {}", rank), values);
        handles.push_back(engine.submit(std::move(request)).value());
      }
      const auto last = engine.join(0, false, soon());
      ASSERT_TRUE(last.is_ok()) << last.status().message();
      for (std::size_t i = 0; i < uses.size(); ++i) {
        EXPECT_TRUE(engine.wait(handles[i], soon()).is_ok());
        engine.release(handles[i]);
        EXPECT_EQ(uses[i].back(), static_cast<float>(rank));
      }
    });
  }
}

TEST_P(JoinEndings, RanksThatLeaveDoNotWaitForWhatTheOthersHaveInQueues) {
  World world(GetParam());
  world.run([&](int rank, Engine& engine) {
    std::vector<std::vector<float>> uses(3, std::vector<float>(3, 1.0F));
    std::vector<Engine::Handle> handles;
    for (auto& values : uses) {
      Request request = allreduce_request(format_text("of rank {}", rank), values);
      handles.push_back(engine.submit(std::move(request)).value());
    }
    const Status status = engine.shutdown(soon());
    EXPECT_TRUE(status.is_ok()) << status.message();
    for (const Engine::Handle handle : handles) {
      EXPECT_EQ(engine.wait(handle, soon()).code(), Code::kAborted);
    }
  });
}

TEST_P(JoinEndings, ARankThatLeavesInsteadFailsTheJoinOfAll) {
  World world(GetParam());
  world.run([&](int rank, Engine& engine) {
    if (rank != 1) {
      const auto joined = engine.join(0, false, soon());
      EXPECT_EQ(joined.status().code(), Code::kAborted) << joined.status().message();
      EXPECT_THAT(joined.status().message(), HasSubstr("rank 1 left the job"));
    }
    EXPECT_TRUE(engine.shutdown(soon()).is_ok());
  });
}

TEST_P(JoinEndings, ARankThatHasJoinedMayLeave) {
  World world(GetParam());
  const int last = world.size() - 1;
  std::atomic<bool> has_joined{false};
  world.run([&](int rank, Engine& engine) {
    if (rank == 0) {
      join_early(engine, has_joined);
    } else {
      wait_for(has_joined);
      std::vector<float> values(3, 1.0F);
      for (int i = 0; i < 5 && rank == last; ++i) {
        const Status status = run_request(engine, allreduce_request("x", values));
        EXPECT_TRUE(status.is_ok()) << status.message();
        EXPECT_EQ(values.back(), 1.0F);
      }
      const auto joined = engine.join(0, false, soon());
      EXPECT_TRUE(joined.is_ok()) << joined.status().message();
      const Status status = run_request(engine, allreduce_request("x", values));
      EXPECT_EQ(status.code(), Code::kAborted) << "rank 0 is not joined any more, and has left";
    }
    EXPECT_TRUE(engine.shutdown(soon()).is_ok());
  });
}

TEST_P(JoinEndings, ProcessSetsChangeOnceTheJoinIsOver) {
  World world(GetParam());
  std::atomic<bool> has_joined{false};
  world.run([&](int rank, Engine& engine) {
    if (rank == 1) {
      join_early(engine, has_joined);
      const auto mine = engine.add_process_set({1}, soon());
      EXPECT_EQ(mine.status().code(), Code::kInvalidArgument) << mine.status().message();
      EXPECT_THAT(mine.status().message(), HasSubstr("has joined"));
    } else {
      wait_for(has_joined);
      const auto added = engine.add_process_set({0}, soon());
      EXPECT_EQ(added.status().code(), Code::kInvalidArgument) << added.status().message();
      EXPECT_THAT(added.status().message(), HasSubstr("rank 1 has joined"));
    }
    EXPECT_TRUE(engine.join(0, false, soon()).is_ok());
    const auto added = engine.add_process_set({world.size() - 1}, soon());
    ASSERT_TRUE(added.is_ok()) << added.status().message();
    EXPECT_TRUE(engine.remove_process_set(added.value(), soon()).is_ok());
  });
}

/// Epochs of random length on one process set, with unnamed tensors and errors among them.
void run_epochs(Engine& engine, int process_set, const std::vector<int>& members, int rank) {
  std::mt19937 shared(static_cast<unsigned>(process_set) + 1);
  for (int epoch = 0; epoch < 12 && !testing::Test::HasFatalFailure(); ++epoch) {
    std::vector<int> steps;
    for (std::size_t i = 0; i < members.size(); ++i) {
      steps.push_back(static_cast<int>(shared() % 5));
    }
    const bool active = shared() % 2 == 0;
    const auto mine =
        static_cast<std::size_t>(std::find(members.begin(), members.end(), rank) - members.begin());
    for (int step = 0; step < steps[mine]; ++step) {
      const auto others = static_cast<float>(
          std::count_if(steps.begin(), steps.end(), [&](int count) { return count > step; }));
      std::vector<float> named(1'000, 1.0F);
      std::vector<float> unnamed(10, 1.0F);
      std::vector<float> average(300, 1.0F);
      Request requests[] = {allreduce_request("a", named), allreduce_request("", unnamed),
                            allreduce_request("b", average, {ReduceOp::kAverage})};
      std::vector<Engine::Handle> handles;
      for (Request& request : requests) {
        request.process_set = process_set;
        handles.push_back(engine.submit(std::move(request)).value());
      }
      for (const Engine::Handle handle : handles) {
        const Status status = engine.wait(handle, soon());
        ASSERT_TRUE(status.is_ok()) << status.message();
        engine.release(handle);
      }
      ASSERT_EQ(named.back(), others);
      ASSERT_EQ(unnamed.back(), others);
      const float divisor = active ? others : static_cast<float>(members.size());
      ASSERT_FLOAT_EQ(average.back(), others / divisor);
      Request barrier;
      barrier.operation = Barrier{};
      barrier.process_set = process_set;
      const Status status = run_request(engine, std::move(barrier));
      // One that comes before the word of the rank that joins next waits for it.
      const bool all = std::all_of(steps.begin(), steps.end(), [&](int n) { return n > step; });
      ASSERT_EQ(status.code(), all ? Code::kOk : Code::kInvalidArgument) << status.message();
    }
    const auto last = engine.join(process_set, active, soon());
    ASSERT_TRUE(last.is_ok()) << last.status().message();
  }
}

TEST_P(JoinEndings, ManyEpochsInOverlappingSetsAtOnce) {
  World world(GetParam());
  std::vector<int> everyone;
  for (int rank = 0; rank < world.size(); ++rank) everyone.push_back(rank);
  const std::vector<int> some(everyone.begin() + 1, everyone.end());
  world.run([&](int rank, Engine& engine) {
    const int id = engine.add_process_set(some, soon()).value();
    std::thread beside;
    if (rank > 0) beside = std::thread([&] { run_epochs(engine, id, some, rank); });
    run_epochs(engine, 0, everyone, rank);
    if (beside.joinable()) beside.join();
    EXPECT_TRUE(engine.remove_process_set(id, soon()).is_ok());
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, JoinEndings,
                         testing::Values(std::vector<int>{2}, std::vector<int>{4},
                                         std::vector<int>{1, 1, 1}, std::vector<int>{2, 2}));

/// Rank 0 has nothing to add, and its join is over before the sum is.
TEST(Join, ASetMayBeRemovedWhileARankStillStandsIn) {
  for (const auto& nodes : {std::vector<int>{3}, {1, 1, 1}, {2, 2}}) {
    World world(nodes);
    world.run([&](int rank, Engine& engine) {
      const int last = world.size() - 1;
      const int id = engine.add_process_set({0, last}, soon()).value();
      std::vector<float> large(4'000'000, 1.0F);
      std::optional<Engine::Handle> handle;
      if (rank == last) {
        Request request = allreduce_request("large", large);
        request.process_set = id;
        handle = engine.submit(std::move(request)).value();
      }
      if (rank == 0 || rank == last) {
        EXPECT_TRUE(engine.join(id, false, soon()).is_ok());
      }
      if (handle) {
        EXPECT_TRUE(engine.wait(*handle, soon()).is_ok());
        engine.release(*handle);
      }
      const Status removed = engine.remove_process_set(id, soon());
      EXPECT_TRUE(removed.is_ok()) << removed.message();
    });
  }
}

}  // namespace
}  // namespace hvd
