// SPDX-License-Identifier: Apache-2.0
// Requests that a caller brings again and again, in the one call that submits and awaits them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "world.h"

namespace hvd {
namespace {

using std::chrono::milliseconds;

Status run_sum(Engine& engine, const std::string& name, std::vector<float>& values) {
  Engine::Handle handle = 0;
  const Status status = run_again(engine, name, allreduce_request(name, values), soon(), handle);
  EXPECT_EQ(handle, 0U) << "there is nothing to release";
  return status;
}

TEST(KeptRequestsOfAWorld, SumWhatLiesElsewhereEachTime) {
  for (const std::vector<int>& nodes : {std::vector<int>{3}, {2, 1}, {1}}) {
    World world(nodes);
    world.run([&](int rank, Engine& engine) {
      std::vector<std::vector<float>> memory(7);
      for (int step = 0; step < 300; ++step) {
        std::vector<float>& values = memory[static_cast<std::size_t>(step % 7)];
        values = {static_cast<float>(rank + step), 1.0F};
        ASSERT_TRUE(run_sum(engine, "t", values).is_ok());
        const auto size = static_cast<float>(world.size());
        const float ranks = size * (size - 1) / 2;
        EXPECT_EQ(values, (std::vector<float>{ranks + size * static_cast<float>(step), size}));
      }
      EXPECT_NE(engine.take_kept(KeptRequests::key_of("t")), nullptr);
      EXPECT_GT(engine.statistics().direct, 290U);
    });
  }
}

TEST(KeptRequestsOfAWorld, AreOnlyKeptOnceTheyAreDone) {
  World world({2});
  world.run([](int rank, Engine& engine) {
    std::vector<float> values{1.0F};
    for (int step = 0; step < 3; ++step) ASSERT_TRUE(run_sum(engine, "late", values).is_ok());
    if (rank == 1) std::this_thread::sleep_for(milliseconds(200));
    values = {1.0F};
    Engine::Handle handle = 0;
    const Deadline deadline = rank == 0 ? Deadline::after(milliseconds(20)) : soon();
    const Status status =
        run_again(engine, "late", allreduce_request("late", values), deadline, handle);
    if (rank == 0) {
      EXPECT_EQ(status.code(), Code::kTimeout);
      ASSERT_NE(handle, 0U);
      EXPECT_EQ(engine.take_kept(KeptRequests::key_of("late")), nullptr);
      EXPECT_TRUE(engine.outcome(handle, soon()).is_ok());
      engine.release(handle);
    }
    EXPECT_EQ(values, std::vector<float>{2.0F});
    ASSERT_TRUE(run_sum(engine, "late", values).is_ok());
    EXPECT_EQ(values, std::vector<float>{4.0F});
  });
}

TEST(KeptRequestsOfAWorld, ThatFailAreMadeAnew) {
  World world({2});
  world.run([](int rank, Engine& engine) {
    std::vector<float> values{1.0F};
    for (int step = 0; step < 20; ++step) {
      values = {1.0F};
      ASSERT_TRUE(run_sum(engine, "t", values).is_ok());
      std::vector<float> others(static_cast<std::size_t>(1 + rank));
      Engine::Handle handle = 0;
      const Status status =
          run_again(engine, "t of two", allreduce_request("t", others), soon(), handle);
      EXPECT_EQ(status.code(), Code::kMismatch);
      EXPECT_EQ(handle, 0U);
      EXPECT_EQ(engine.take_kept(KeptRequests::key_of("t of two")), nullptr);
    }
    EXPECT_EQ(values, std::vector<float>{2.0F});
  });
}

TEST(KeptRequestsOfAWorld, GiveTheRowsOfEachTime) {
  World world({3});
  world.run([](int rank, Engine& engine) {
    const auto rows_of = [](int source, int step) {  // rank 0 always brings as many
      return 1 + source * step % 3;
    };
    for (int step = 0; step < 50; ++step) {
      const int count = rows_of(rank, step);
      std::vector<float> mine(static_cast<std::size_t>(count),
                              static_cast<float>(10 * step + rank));
      Request request = allreduce_request("rows", mine);
      request.operation = Allgather{};
      request.tensors.front().output = nullptr;
      const std::string key = "rows: " + std::to_string(count);
      Engine::Handle handle = 0;
      ASSERT_TRUE(run_again(engine, key, std::move(request), soon(), handle).is_ok());
      ASSERT_NE(handle, 0U);
      const GatherResult& result = *engine.gathered(handle, 0).value();
      const auto* row = reinterpret_cast<const float*>(result.begin());
      for (int source = 0; source < 3; ++source) {
        ASSERT_EQ(result.rows[static_cast<std::size_t>(source)], rows_of(source, step));
        for (int i = 0; i < rows_of(source, step); ++i) {
          ASSERT_EQ(*row++, static_cast<float>(10 * step + source));
        }
      }
      EXPECT_EQ(result.shape,
                std::vector<std::int64_t>{row - reinterpret_cast<const float*>(result.begin())});
      EXPECT_EQ(engine.take_kept(KeptRequests::key_of(key)), nullptr) << "its rows are read";
      engine.release(handle);
    }
    EXPECT_NE(engine.take_kept(KeptRequests::key_of("rows: 1")), nullptr);
  });
}

TEST(KeptRequestsOfAWorld, AreSharedOutAsAtFirst) {
  World world({2});
  world.run([](int rank, Engine& engine) {
    const std::vector<Operation> operations = {Alltoall{}, Scatter{1}, Reducescatter{}};
    for (int step = 0; step < 20; ++step) {
      for (const Operation& operation : operations) {
        std::vector<float> mine{static_cast<float>(10 * rank + step), 3.0F};
        std::vector<float> output(2);
        // In turns in memory of the caller and of the library.
        const bool is_given = step % 2 == 0 && std::holds_alternative<Reducescatter>(operation);
        const std::string name(kind_name(operation));
        Request request = allreduce_request(name, mine);
        request.operation = operation;
        request.tensors.front().output = is_given ? output.data() : nullptr;
        Engine::Handle handle = 0;
        ASSERT_TRUE(run_again(engine, name, std::move(request), soon(), handle).is_ok());
        ASSERT_NE(handle, 0U);
        const auto first = [&] {
          if (is_given) return output.front();
          return *reinterpret_cast<const float*>(engine.gathered(handle, 0).value()->begin());
        };
        const auto base = static_cast<float>(step);
        if (std::holds_alternative<Alltoall>(operation)) {
          EXPECT_EQ(first(), rank == 0 ? base : 3.0F);
        } else if (std::holds_alternative<Scatter>(operation)) {
          EXPECT_EQ(first(), rank == 0 ? 10 + base : 3.0F);
        } else {
          EXPECT_EQ(first(), rank == 0 ? 10 + 2 * base : 6.0F);
        }
        engine.release(handle);
      }
    }
  });
}

TEST(KeptRequestsOfAWorld, WithoutANameAreCountedWithThoseThatAreSubmitted) {
  World world({2});
  world.run([](int rank, Engine& engine) {
    for (int step = 0; step < 300; ++step) {
      std::vector<float> values{static_cast<float>(step)};
      if ((step + rank) % 3 == 0) {
        const auto handle = engine.submit(allreduce_request("", values));
        ASSERT_TRUE(handle.is_ok());
        ASSERT_TRUE(engine.wait(handle.value(), soon()).is_ok());
        engine.release(handle.value());
      } else {
        Engine::Handle handle = 0;
        ASSERT_TRUE(
            run_again(engine, "no name", allreduce_request("", values), soon(), handle).is_ok());
      }
      EXPECT_EQ(values, std::vector<float>{static_cast<float>(2 * step)});
    }
  });
}

TEST(KeptRequestsOfAWorld, OfManyThreadsWaitForEachOther) {
  World world({2});
  world.run([](int, Engine& engine) {
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 3; ++thread) {
      threads.emplace_back([&, thread] {
        const std::string own = "of thread " + std::to_string(thread);
        for (int step = 0; step < 200; ++step) {
          std::vector<float> values{static_cast<float>(step)};
          EXPECT_TRUE(run_sum(engine, own, values).is_ok());
          EXPECT_EQ(values, std::vector<float>{static_cast<float>(2 * step)});
          // Whose use meets whose, nobody knows; each is one of both ranks.
          std::vector<float> ones{1.0F};
          EXPECT_TRUE(run_sum(engine, "of all", ones).is_ok());
          EXPECT_EQ(ones, std::vector<float>{2.0F});
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

TEST(KeptRequestsOfAWorld, OfAProcessSetAreCheckedEachTime) {
  World world({3});
  world.run([](int rank, Engine& engine) {
    const auto set = engine.add_process_set({0, 2}, soon());
    ASSERT_TRUE(set.is_ok());
    const auto broadcast = [&](std::vector<float>& values) {
      Request request = allreduce_request("from 2", values);
      request.operation = Broadcast{2};
      request.process_set = set.value();
      Engine::Handle handle = 0;
      const KeptRequests::Key key = KeptRequests::key_of("from 2");
      PendingPtr kept = engine.take_kept(key);
      if (kept == nullptr) return engine.run(std::move(request), key, soon(), handle);
      set_root(kept->request.operation, 2);
      kept->request.tensors = std::move(request.tensors);
      return engine.run(std::move(kept), soon(), handle);
    };
    if (rank != 1) {
      for (int step = 0; step < 50; ++step) {
        std::vector<float> values{static_cast<float>(rank + step)};
        ASSERT_TRUE(broadcast(values).is_ok());
        EXPECT_EQ(values, std::vector<float>{static_cast<float>(2 + step)});
      }
    }
    ASSERT_TRUE(engine.remove_process_set(set.value(), soon()).is_ok());
    if (rank != 1) {
      std::vector<float> values{1.0F};
      const Status status = broadcast(values);
      EXPECT_EQ(status.code(), Code::kInvalidArgument);
      EXPECT_THAT(status.message(), testing::HasSubstr("there is no process set"));
    }
  });
}

TEST(KeptRequestsOfAWorld, ComeToNothingAfterTheEnd) {
  World world({2});
  world.run([](int, Engine& engine) {
    std::vector<float> values{1.0F};
    ASSERT_TRUE(run_sum(engine, "t", values).is_ok());
    ASSERT_TRUE(engine.shutdown(soon()).is_ok());
    const Status status = run_sum(engine, "t", values);
    EXPECT_EQ(status.code(), Code::kAborted);
  });
}

}  // namespace
}  // namespace hvd
