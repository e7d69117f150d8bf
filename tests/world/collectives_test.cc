// SPDX-License-Identifier: Apache-2.0
// Broadcast, allgather, barrier, groups, callbacks and several threads, end to end.
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <numeric>
#include <string>
#include <thread>

#include "world/world.h"

namespace hvd {
namespace {

class CollectivesWorld : public testing::TestWithParam<std::vector<int>> {};

TEST_P(CollectivesWorld, BroadcastsFromEveryRoot) {
  World world(GetParam());
  world.run([](int rank, Engine& engine) {
    for (int root = 0; root < engine.world().size; ++root) {
      for (const std::size_t count : {std::size_t{1}, std::size_t{200'000}}) {
        std::vector<std::int64_t> values(count, rank);
        Request request;
        request.name = "weights";
        request.operation = Broadcast{root};
        request.tensors.push_back({values.data(),
                                   values.data(),
                                   DataType::kInt64,
                                   {static_cast<std::int64_t>(count)},
                                   0});
        const Status status = run_request(engine, request);
        ASSERT_TRUE(status.is_ok()) << status.message();
        for (const auto value : values) ASSERT_EQ(value, root);
      }
    }
  });
}

TEST_P(CollectivesWorld, GathersUnevenRows) {
  World world(GetParam());
  world.run([](int rank, Engine& engine) {
    const int size = engine.world().size;
    for (int step = 0; step < 3; ++step) {
      // rank r gives r + step rows, so rank 0 gives none at first; the name keeps its id.
      const int rows = rank + step;
      std::vector<double> values(static_cast<std::size_t>(rows) * 3, rank);
      Request request;
      request.name = "rows";
      request.operation = Allgather{};
      request.tensors.push_back({values.data(), nullptr, DataType::kFloat64, {rows, 3}, 0});
      const auto handle = engine.submit(request).value();
      const Status status = engine.wait(handle, soon());
      ASSERT_TRUE(status.is_ok()) << status.message();
      const GatherResult* result = engine.gathered(handle, 0).value();
      const int total = size * (size - 1) / 2 + size * step;
      ASSERT_EQ(result->shape, (std::vector<std::int64_t>{total, 3}));
      const auto* gathered = reinterpret_cast<const double*>(result->data.get());
      std::size_t index = 0;
      for (int from = 0; from < size; ++from) {
        ASSERT_EQ(result->rows[static_cast<std::size_t>(from)], from + step);
        for (int i = 0; i < (from + step) * 3; ++i) ASSERT_EQ(gathered[index++], from);
      }
      engine.release(handle);
    }
  });
}

TEST_P(CollectivesWorld, ABarrierHoldsUntilAllHaveEntered) {
  World world(GetParam());
  std::atomic<int> entered{0};
  world.run([&](int, Engine& engine) {
    for (int round = 1; round <= 20; ++round) {
      entered.fetch_add(1);
      Request request;
      request.operation = Barrier{};
      ASSERT_TRUE(run_request(engine, request).is_ok());
      ASSERT_GE(entered.load(), round * engine.world().size);
    }
  });
}

TEST_P(CollectivesWorld, AGroupOfMixedTypesCompletesAsOne) {
  World world(GetParam());
  world.run([](int rank, Engine& engine) {
    std::vector<float> a(10, static_cast<float>(rank));
    std::vector<std::int32_t> b(7, rank);
    std::vector<float> c(100'000, 1.0F);
    Request request;
    request.name = "group";
    request.operation = Allreduce{ReduceOp::kSum, 1, 1};
    request.tensors.push_back({a.data(), a.data(), DataType::kFloat32, {10}, 0});
    request.tensors.push_back({b.data(), b.data(), DataType::kInt32, {7}, 0});
    request.tensors.push_back({c.data(), c.data(), DataType::kFloat32, {100'000}, 0});
    const Status status = run_request(engine, request);
    ASSERT_TRUE(status.is_ok()) << status.message();
    const int size = engine.world().size;
    EXPECT_EQ(a[9], static_cast<float>(size * (size - 1) / 2));
    EXPECT_EQ(b[6], size * (size - 1) / 2);
    EXPECT_EQ(c[99'999], static_cast<float>(size));
  });
}

TEST_P(CollectivesWorld, AVeryLargeGroupFitsThroughTheBoard) {
  World world(GetParam());
  world.run([](int, Engine& engine) {
    std::vector<float> values(6'000, 1.0F);
    Request request;
    request.name = std::string(1'000, 'n');
    request.operation = Allreduce{ReduceOp::kSum, 1, 1};
    for (float& value : values) {
      request.tensors.push_back({&value, &value, DataType::kFloat32, {1, 1, 1}, 0});
    }
    const Status status = run_request(engine, request);
    ASSERT_TRUE(status.is_ok()) << status.message();
    EXPECT_EQ(values[5'999], static_cast<float>(engine.world().size));
  });
}

TEST_P(CollectivesWorld, CallbacksRunOnceAndMaySubmit) {
  World world(GetParam());
  world.run([](int, Engine& engine) {
    std::vector<float> first(5, 1.0F);
    std::vector<float> second(5, 1.0F);
    std::atomic<int> calls{0};
    std::atomic<Engine::Handle> next{0};
    Request request = allreduce_request("first", first);
    request.on_complete = [&](const Status& status) {
      EXPECT_TRUE(status.is_ok());
      next.store(engine.submit(allreduce_request("second", second)).value());
      calls.fetch_add(1);
    };
    const auto handle = engine.submit(request).value();
    ASSERT_TRUE(engine.wait(handle, soon()).is_ok());
    const Deadline deadline = soon();
    while (next.load() == 0 && !deadline.has_passed()) std::this_thread::yield();
    ASSERT_TRUE(engine.wait(next.load(), soon()).is_ok());
    EXPECT_EQ(calls.load(), 1);
    EXPECT_EQ(second[0], static_cast<float>(engine.world().size));
  });
}

TEST_P(CollectivesWorld, ACallbackMayHoldTheEngineLast) {
  World world(GetParam());
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < world.size(); ++rank) {
    ranks.emplace_back(
        [rank, size = world.size(), own = std::shared_ptr<Engine>(world.take(rank))]() mutable {
          std::vector<float> values(5, 1.0F);
          std::vector<float> never(1, 1.0F);
          std::promise<void> released;
          std::promise<void> let_go;
          std::promise<Status> ended;
          Request pending = allreduce_request("of rank " + std::to_string(rank) + " alone", never);
          pending.on_complete = [&](const Status& status) { ended.set_value(status); };
          ASSERT_TRUE(own->submit(std::move(pending)).is_ok());
          Request request = allreduce_request("together", values);
          // It fails where another rank has gone before.
          request.on_complete = [&, last = own](const Status&) mutable {
            released.get_future().wait();
            last.reset();
            let_go.set_value();
          };
          ASSERT_TRUE(own->submit(std::move(request)).is_ok());
          own.reset();
          released.set_value();
          auto callback = let_go.get_future();
          ASSERT_EQ(callback.wait_for(std::chrono::minutes(1)), std::future_status::ready);
          auto end = ended.get_future();
          ASSERT_EQ(end.wait_for(std::chrono::minutes(1)), std::future_status::ready);
          EXPECT_EQ(end.get().is_ok(), size == 1);
        });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST_P(CollectivesWorld, SeveralThreadsOfARankMayWaitAtOnce) {
  World world(GetParam());
  world.run([](int, Engine& engine) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&engine, t] {
        for (int i = 0; i < 30; ++i) {
          std::vector<float> values(1'000, 1.0F);
          const Status status =
              run_request(engine, allreduce_request("thread" + std::to_string(t), values));
          ASSERT_TRUE(status.is_ok()) << status.message();
          ASSERT_EQ(values[999], static_cast<float>(engine.world().size));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

TEST_P(CollectivesWorld, BadRequestsAreRefusedBeforeAnyoneElseHears) {
  World world(GetParam());
  world.run([](int, Engine& engine) {
    std::vector<float> values(4);
    Request request = allreduce_request("x", values);
    request.tensors[0].shape = {-4};
    EXPECT_EQ(engine.submit(request).status().code(), Code::kInvalidArgument);
    request = allreduce_request("x", values);
    request.process_set = 3;
    EXPECT_EQ(engine.submit(request).status().code(), Code::kInvalidArgument);
    request = allreduce_request("x", values);
    request.operation = Broadcast{99};
    EXPECT_EQ(engine.submit(request).status().code(), Code::kInvalidArgument);
    request = allreduce_request("x", values);
    request.tensors.clear();
    EXPECT_EQ(engine.submit(request).status().code(), Code::kInvalidArgument);
    EXPECT_EQ(engine.wait(12'345, soon()).code(), Code::kInvalidArgument);
    EXPECT_TRUE(run_request(engine, allreduce_request("x", values)).is_ok());
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, CollectivesWorld,
                         testing::Values(std::vector<int>{1}, std::vector<int>{2},
                                         std::vector<int>{3}, std::vector<int>{4},
                                         std::vector<int>{2, 2}, std::vector<int>{1, 1, 1},
                                         std::vector<int>{2, 1, 1}, std::vector<int>(6, 1)));

}  // namespace
}  // namespace hvd
