// SPDX-License-Identifier: Apache-2.0
#include <future>

#include "bootstrap/thread_world.h"
#include "world/world.h"

namespace hvd {
namespace {

/// Done after this many looks: far more than an engine takes that waits to be woken.
constexpr int kLooks = 4'000;

class LookedAtTask : public Task {
 public:
  Progress advance() override { return ++looks_ < kLooks ? Progress::kBlocked : Progress::kDone; }
  const Status& status() const override { return status_; }

 private:
  int looks_ = 0;
  Status status_;
};

/// Nothing wakes the engine for its tasks.
class SilentBackend : public Backend {
 public:
  std::string_view name() const override { return "silent"; }
  Status supports(const Operation&, DataType, Device) const override { return Status::ok(); }
  std::string reach() const override { return "a test"; }
  Result<std::unique_ptr<Task>> start(Batch) override {
    return std::unique_ptr<Task>(std::make_unique<LookedAtTask>());
  }
  bool reproducible() const override { return true; }
  bool needs_polling() const override { return true; }
};

BackendEntry silent_entry() {
  return {.name = "silent",
          .memory_bytes = [](int) { return std::size_t{0}; },
          .create = [](const BackendContext&) -> Result<std::unique_ptr<Backend>> {
            return std::unique_ptr<Backend>(std::make_unique<SilentBackend>());
          }};
}

class PollingWorld {
 public:
  PollingWorld() : table_{silent_entry()} {
    auto wirings = wire_threads({.size = 1, .memory_bytes = [this](int local_size) {
                                   return node_memory_bytes(table_, local_size);
                                 }});
    EXPECT_TRUE(wirings.is_ok());
    auto engine = Engine::start(std::move(wirings.value()[0]), table_, World::quick_options());
    EXPECT_TRUE(engine.is_ok()) << engine.status().message();
    engine_ = std::move(engine).value();
  }
  Engine& engine() { return *engine_; }

 private:
  std::vector<BackendEntry> table_;
  EnginePtr engine_;
};

// Without polling, some ten looks in each tick of 200 ms: 80 s.
const auto kPatience = std::chrono::seconds(30);

TEST(Polling, ACallerThatWaitsFinishesATaskThatNothingWakesUsFor) {
  PollingWorld world;
  std::vector<float> values(8, 1.0F);
  const auto handle = world.engine().submit(allreduce_request("waited", values));
  ASSERT_TRUE(handle.is_ok()) << handle.status().message();
  EXPECT_TRUE(world.engine().wait(handle.value(), Deadline::after(kPatience)).is_ok());
}

TEST(Polling, TheThreadAloneFinishesATaskThatNothingWakesUsFor) {
  PollingWorld world;
  std::vector<float> values(8, 1.0F);
  Request request = allreduce_request("left alone", values);
  std::promise<bool> completed;
  request.on_complete = [&](const Status& status) { completed.set_value(status.is_ok()); };
  ASSERT_TRUE(world.engine().submit(std::move(request)).is_ok());
  auto outcome = completed.get_future();
  ASSERT_EQ(outcome.wait_for(kPatience), std::future_status::ready);
  EXPECT_TRUE(outcome.get());
}

}  // namespace
}  // namespace hvd
