// SPDX-License-Identifier: Apache-2.0
#include "device/event_watcher.h"

#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <mutex>
#include <vector>

#include "cuda_gpus.h"

namespace hvd {
namespace {

using namespace std::chrono_literals;
using EventWatcherTest = CudaGpus;

TEST_F(EventWatcherTest, TellsOfEventsInOrderAndSleepsBetween) {
  const StreamHandle queue = stream();
  double_hang(static_cast<CUstream>(queue));
  constexpr int kEvents = 20;
  std::mutex mutex;
  std::vector<int> told;
  std::promise<void> all;
  EventWatcher watcher;
  for (int i = 0; i < kEvents; ++i) {
    auto event = gpu_->record(queue);
    ASSERT_TRUE(event.is_ok());
    watcher.watch(std::move(event).value(), [&, i](const Status& status) {
      EXPECT_TRUE(status.is_ok());
      std::lock_guard lock(mutex);
      told.push_back(i);
      if (i == kEvents - 1) all.set_value();
    });
  }
  {
    std::lock_guard lock(mutex);
    EXPECT_TRUE(told.empty());
  }
  double_release();
  ASSERT_EQ(all.get_future().wait_for(60s), std::future_status::ready);
  for (int i = 0; i < kEvents; ++i) EXPECT_EQ(told[static_cast<std::size_t>(i)], i);
  // One call for each event: the thread asks nobody in between.
  EXPECT_EQ(double_calls("cuEventSynchronize"), static_cast<std::uint64_t>(kEvents));
  EXPECT_EQ(double_calls("cuEventQuery"), 0U);
}

TEST_F(EventWatcherTest, TellsWhatTheDeviceMet) {
  const StreamHandle queue = stream();
  auto event = gpu_->record(queue);
  ASSERT_TRUE(event.is_ok());
  double_spoil(0, CUDA_ERROR_LAUNCH_FAILED);
  std::promise<Status> met;
  EventWatcher watcher;
  watcher.watch(std::move(event).value(), [&](const Status& status) { met.set_value(status); });
  auto future = met.get_future();
  ASSERT_EQ(future.wait_for(60s), std::future_status::ready);
  EXPECT_THAT(future.get().message(), testing::HasSubstr("CUDA_ERROR_LAUNCH_FAILED"));
}

TEST_F(EventWatcherTest, MayWatchFromWhatItCalls) {
  const StreamHandle queue = stream();
  std::promise<void> done;
  EventWatcher watcher;
  watcher.watch(gpu_->record(queue).value(), [&](const Status&) {
    watcher.watch(gpu_->record(queue).value(), [&](const Status&) { done.set_value(); });
  });
  EXPECT_EQ(done.get_future().wait_for(60s), std::future_status::ready);
}

TEST_F(EventWatcherTest, TellsNothingAfterItsEnd) {
  const StreamHandle queue = stream();
  std::atomic<int> told{0};
  std::promise<void> entered;
  std::promise<void> go_on;
  {
    EventWatcher watcher;
    watcher.watch(gpu_->record(queue).value(), [&](const Status&) {
      told++;
      entered.set_value();
      go_on.get_future().wait();
    });
    ASSERT_EQ(entered.get_future().wait_for(60s), std::future_status::ready);
    watcher.watch(gpu_->record(queue).value(), [&](const Status&) { told++; });
    // The end begins before the first call returns, or after it: one more call, or none.
    go_on.set_value();
  }
  const int at_end = told;
  ASSERT_TRUE(finish(*gpu_, queue).is_ok());
  EXPECT_EQ(told, at_end);
}

TEST(EventWatcher, NeedsNoEvents) { const EventWatcher watcher; }

}  // namespace
}  // namespace hvd
