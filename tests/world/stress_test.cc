// SPDX-License-Identifier: Apache-2.0
// Everything at once: several threads per rank, every way to submit and to wait, names reused.
#include <algorithm>
#include <random>
#include <string>

#include "world/world.h"

namespace hvd {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kSteps = 25;
#else
constexpr int kSteps = 150;
#endif
constexpr int kThreads = 3;
constexpr std::size_t kCounts[] = {1, 7, 300, 20'000};

/// One thread of one rank: its own names, the same on every rank, in an order of its own.
class Stress {
 public:
  Stress(int rank, int thread, Engine& engine)
      : rank_(rank),
        thread_(thread),
        engine_(engine),
        random_(static_cast<unsigned>(rank * kThreads + thread)),
        shared_(static_cast<unsigned>(thread)) {}

  void run() {
    for (int step = 0; step < kSteps && !testing::Test::HasFatalFailure(); ++step) {
      // What is submitted is the same on every rank, how it is done is not.
      const int tensors = 1 + static_cast<int>(shared_() % 6);
      const std::size_t count = kCounts[shared_() % std::size(kCounts)];
      const bool same_name = shared_() % 4 == 0;
      if (same_name) {
        reuse(tensors, count);
      } else {
        shuffle(tensors, count);
      }
    }
  }

 private:
  struct Flight {
    std::vector<float> values;
    float sum = 0;
    Engine::Handle handle = 0;
  };

  Flight make(std::size_t count, int salt) {
    const int size = engine_.world().size;
    Flight flight;
    flight.values.assign(count, static_cast<float>(rank_ + salt));
    flight.sum = static_cast<float>(size * (size - 1) / 2 + size * salt);
    return flight;
  }

  std::string name_of(int tensor) const {
    return "t" + std::to_string(thread_) + "." + std::to_string(tensor);
  }

  /// Several names, submitted in any order.
  void shuffle(int tensors, std::size_t count) {
    std::vector<Flight> flights;
    std::vector<int> order;
    for (int i = 0; i < tensors; ++i) {
      flights.push_back(make(count, i));
      order.push_back(i);
    }
    std::shuffle(order.begin(), order.end(), random_);
    for (const int i : order) submit(flights[static_cast<std::size_t>(i)], name_of(i));
    finish(flights);
  }

  /// One name that queues behind itself.
  void reuse(int tensors, std::size_t count) {
    std::vector<Flight> flights;
    for (int i = 0; i < tensors; ++i) flights.push_back(make(count, i));
    for (Flight& flight : flights) submit(flight, name_of(99));
    finish(flights);
  }

  void submit(Flight& flight, const std::string& name) {
    Request request = allreduce_request(name, flight.values);
    request.more = random_() % 2 == 0;
    auto handle = engine_.submit(std::move(request));
    ASSERT_TRUE(handle.is_ok()) << handle.status().message();
    flight.handle = handle.value();
    if (random_() % 4 == 0) {
      const Status status = engine_.wait(flight.handle, Deadline::at(Clock::now()));
      ASSERT_TRUE(status.is_ok() || status.code() == Code::kTimeout) << status.message();
    }
  }

  void finish(std::vector<Flight>& flights) {
    if (random_() % 2 == 0) engine_.flush();
    std::shuffle(flights.begin(), flights.end(), random_);
    for (Flight& flight : flights) {
      const Deadline deadline = soon();
      while (random_() % 3 != 0 && !deadline.has_passed()) {
        const auto done = engine_.poll(flight.handle);
        ASSERT_TRUE(done.is_ok()) << done.status().message();
        if (done.value()) break;
      }
      const Status status = engine_.wait(flight.handle, deadline);
      ASSERT_TRUE(status.is_ok()) << "rank " << rank_ << ": " << status.message();
      engine_.release(flight.handle);
      for (const float value : flight.values) ASSERT_EQ(value, flight.sum) << "rank " << rank_;
    }
  }

  int rank_;
  int thread_;
  Engine& engine_;
  std::mt19937 random_;  ///< This rank's own.
  std::mt19937 shared_;  ///< The same on every rank.
};

class StressWorld : public testing::TestWithParam<std::vector<int>> {};

TEST_P(StressWorld, ThreadsMayMixEveryWayToSubmitAndToWait) {
  World world(GetParam());
  world.run([](int rank, Engine& engine) {
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([rank, thread, &engine] { Stress(rank, thread, engine).run(); });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

TEST_P(StressWorld, WhatARankSubmittedBeforeItLeftStillRuns) {
  World world(GetParam());
  const int leaver = world.size() - 1;
  constexpr int kUses = 3;
  world.run([&](int rank, Engine& engine) {
    std::vector<std::vector<float>> tensors(kUses, std::vector<float>(5, 1.0F));
    std::vector<Engine::Handle> handles;
    for (auto& values : tensors) {
      handles.push_back(engine.submit(allreduce_request("x", values)).value());
    }
    if (rank != leaver) {
      for (const auto handle : handles) {
        const Status status = engine.wait(handle, soon());
        EXPECT_TRUE(status.is_ok()) << status.message();
      }
      // Many: an announcement that failed before its leader saw it must not hide the next one.
      for (int repeat = 0; repeat < 30; ++repeat) {
        std::vector<float> values(5, 1.0F);
        ASSERT_EQ(run_request(engine, allreduce_request("x", values)).code(), Code::kAborted);
      }
    }
    const Status status = engine.shutdown(soon());
    EXPECT_TRUE(status.is_ok()) << status.message();
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, StressWorld,
                         testing::Values(std::vector<int>{2}, std::vector<int>{4},
                                         std::vector<int>{2, 2}, std::vector<int>{1, 1, 1}));

}  // namespace
}  // namespace hvd
