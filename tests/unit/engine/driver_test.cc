// SPDX-License-Identifier: Apache-2.0
#include "engine/driver.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "bootstrap/thread_world.h"
#include "engine/timeline/timeline.h"

namespace hvd {
namespace {

/// Finishes a request after so many steps.
class CountedWork : public Driven {
 public:
  explicit CountedWork(Submission& submission, Completion& completion)
      : submission_(submission), completion_(completion) {}

  void submit(const PendingPtr& pending) override HVD_REQUIRES(progress_) {
    ++submitted;
    submission_.drain(taken_);
    taken_.push_back(pending);
  }
  Look look(const PendingRequest&) override HVD_REQUIRES(progress_) {
    ++looks;
    if (seen == Look::kMoved) finish();
    return seen;
  }
  bool step() override HVD_REQUIRES(progress_) {
    ++steps;
    submission_.drain(taken_);
    if (taken_.empty() || steps < steps_wanted) return false;
    finish();
    return true;
  }
  void finish() HVD_REQUIRES(progress_) {
    for (const PendingPtr& pending : taken_) completion_.finish(pending, Status::ok());
    taken_.clear();
  }
  void tick(Clock::time_point) override HVD_REQUIRES(progress_) { ++ticks; }
  Clock::time_point urge(Clock::time_point) override HVD_REQUIRES(progress_) {
    ++urges;
    return Clock::time_point::max();
  }
  void handle(const Watch::Event&) override HVD_REQUIRES(progress_) {}
  bool may_be_needed() const override HVD_REQUIRES(progress_) { return needed; }
  bool needs_polling() const override HVD_REQUIRES(progress_) { return false; }
  bool send_rest() override HVD_REQUIRES(progress_) { return ++rests >= rests_wanted; }
  void lose_self(const Status&) override HVD_REQUIRES(progress_) {}

  int steps_wanted = 0;
  int rests_wanted = 1;
  bool needed = true;
  Look seen = Look::kUnknown;
  int submitted = 0;
  int steps = 0;
  int looks = 0;
  int ticks = 0;
  int urges = 0;
  int rests = 0;

 private:
  Submission& submission_;
  Completion& completion_;
  std::vector<PendingPtr> taken_;
};

class DriverTest : public testing::Test {
 protected:
  DriverTest() {
    auto wirings = wire_threads({.size = 1});
    EXPECT_TRUE(wirings.is_ok());
    wiring_ = std::move(wirings.value()[0]);
    watch_ = Watch::open(wiring_).value();
    driver_ = std::make_unique<Driver>(
        Driver::Parts{work_, *watch_, *wiring_.node.doorbell, submission_, completion_},
        Driver::Pace::of(20, 1, 1));  // a core for each rank: waiters look
  }

  static Request barrier() {
    Request request;
    request.name = "t";
    request.operation = Barrier{};
    return request;
  }

  PendingPtr submit(std::function<void(const Status&)> on_complete = {}) {
    Request request = barrier();
    request.on_complete = std::move(on_complete);
    PendingPtr pending = completion_.add(std::move(request));
    submission_.push(pending);
    return pending;
  }

  Timeline timeline_{0, "host"};
  Completion completion_{1};
  Submission submission_{timeline_};
  CountedWork work_{submission_, completion_};
  Wiring wiring_;
  std::unique_ptr<Watch> watch_;
  std::unique_ptr<Driver> driver_;
};

const Deadline kSoon = Deadline::after(std::chrono::seconds(60));

TEST_F(DriverTest, LetsTheCallerThatWaitsDrive) {
  work_.steps_wanted = 10;
  const auto pending = submit();
  EXPECT_TRUE(driver_->await(*pending, Until::kDone, kSoon)) << "no thread was started";
  EXPECT_GE(work_.steps, 10);
}

TEST_F(DriverTest, GivesUpAtTheDeadline) {
  work_.steps_wanted = 1'000'000'000;
  const auto pending = submit();
  EXPECT_FALSE(
      driver_->await(*pending, Until::kDone, Deadline::after(std::chrono::milliseconds(5))));
  EXPECT_GE(driver_->waited(), std::chrono::milliseconds(5));
}

TEST_F(DriverTest, RunsWhatNobodyElseHearsOf) {
  const PendingPtr pending = completion_.add(barrier());
  EXPECT_TRUE(driver_->run(pending, kSoon)) << "no thread was started";
  EXPECT_EQ(work_.submitted, 1);
}

TEST_F(DriverTest, LeavesToWhoeverDrivesWhatItCannotSubmitItself) {
  const PendingPtr pending = completion_.add(barrier());
  std::thread other;
  {
    Lock lock(work_.progress());
    other = std::thread([&] { EXPECT_TRUE(driver_->run(pending, kSoon)); });
    while (submission_.is_empty()) std::this_thread::yield();
    while (!work_.step()) std::this_thread::yield();
  }
  other.join();
  EXPECT_EQ(work_.submitted, 0);
}

TEST_F(DriverTest, LooksMoreOftenThanItSteps) {
  work_.seen = Driven::Look::kAwaits;
  work_.steps_wanted = 10;
  EXPECT_TRUE(driver_->run(completion_.add(barrier()), kSoon));
  EXPECT_GE(work_.steps, 10) << "what else there is still moves";
  EXPECT_GT(work_.looks, 3 * work_.steps);
}

TEST_F(DriverTest, StepsWhereALookShowsNothing) {
  work_.steps_wanted = 10;
  EXPECT_TRUE(driver_->run(completion_.add(barrier()), kSoon));
  EXPECT_LE(work_.looks, work_.steps);
}

TEST_F(DriverTest, StepsEachTimeWhereRanksShareCpus) {
  Driver crowded({work_, *watch_, *wiring_.node.doorbell, submission_, completion_},
                 Driver::Pace::of(-1, 3, 2));
  work_.seen = Driven::Look::kAwaits;
  work_.steps_wanted = 10;
  EXPECT_TRUE(crowded.run(completion_.add(barrier()), kSoon));
  EXPECT_EQ(work_.looks, 0) << "who looks on keeps the rank that it waits for from its core";
}

TEST_F(DriverTest, StepsNowAndThenWhereTheFirstLookFindsAll) {
  work_.needed = false;
  work_.seen = Driven::Look::kMoved;
  for (int run = 0; run < 200; ++run) {
    EXPECT_TRUE(driver_->run(completion_.add(barrier()), kSoon));
  }
  EXPECT_EQ(work_.looks, 200);
  EXPECT_EQ(work_.steps, 3);
}

TEST_F(DriverTest, WaitsForAStreamOnlyUntilTheRequestIsEnqueued) {
  work_.steps_wanted = 1'000'000'000;
  const auto pending = submit();
  pending->enqueued.store(true);
  EXPECT_TRUE(driver_->await(*pending, Until::kEnqueued, kSoon));
  EXPECT_FALSE(
      driver_->await(*pending, Until::kDone, Deadline::after(std::chrono::milliseconds(1))));
}

TEST_F(DriverTest, RunsASubmissionOnItsThread) {
  ASSERT_TRUE(driver_->start([] {}).is_ok());
  std::promise<Status> told;
  submit([&](const Status& status) { told.set_value(status); });
  driver_->wake();
  auto future = told.get_future();
  ASSERT_EQ(future.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_TRUE(future.get().is_ok());
  EXPECT_TRUE(driver_->stop());
  EXPECT_GE(work_.ticks, 1);
}

TEST_F(DriverTest, StoppedOnItsOwnThreadEndsAfterTheCallback) {
  std::promise<bool> stopped;
  std::promise<void> orphaned;
  ASSERT_TRUE(driver_->start([&] { orphaned.set_value(); }).is_ok());
  submit([&](const Status&) { stopped.set_value(driver_->stop()); });
  driver_->wake();
  EXPECT_FALSE(stopped.get_future().get()) << "a thread cannot wait for itself";
  ASSERT_EQ(orphaned.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
}

TEST_F(DriverTest, UrgesOnlyOnceItMay) {
  work_.steps_wanted = 1'000'000'000;
  const auto pending = submit();
  const auto never = pending->overdue_at.load();
  driver_->note_overdue(*pending, Clock::now());
  EXPECT_EQ(pending->overdue_at.load(), never) << "no request is on GPU memory";
  driver_->enable_urging();
  const auto now = Clock::now();
  driver_->note_overdue(*pending, now);
  EXPECT_EQ(pending->overdue_at.load(), now.time_since_epoch().count());
  driver_->note_overdue(*pending, now + std::chrono::seconds(1));
  EXPECT_EQ(pending->overdue_at.load(), now.time_since_epoch().count()) << "the earliest counts";
}

TEST_F(DriverTest, HandsOnTheLastWordsUntilNothingIsLeft) {
  work_.rests_wanted = 3;
  driver_->send_last_words();
  EXPECT_EQ(work_.rests, 3);
}

TEST(DriverPace, PollsLongWhereEachRankHasACore) {
  struct Case {
    int spin;
    int sharers;
    int cpus;
    int polls;
    int yields;  ///< In units of one yield.
  };
  const Case cases[] = {
      {-1, 2, 2, 20'000, 1}, {-1, 3, 2, 50, 2}, {0, 1, 1, 1, 1}, {7, 8, 2, 8, 4}, {-1, 1, 0, 50, 1},
  };
  const Clock::duration one = Driver::Pace::of(-1, 1, 1).long_yield;
  for (const Case& c : cases) {
    const Driver::Pace pace = Driver::Pace::of(c.spin, c.sharers, c.cpus);
    EXPECT_EQ(pace.spin_polls, c.polls);
    EXPECT_EQ(pace.long_yield, one * c.yields);
  }
}

}  // namespace
}  // namespace hvd
