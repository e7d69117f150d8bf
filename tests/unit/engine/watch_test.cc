// SPDX-License-Identifier: Apache-2.0
#include "engine/watch.h"

#include <gtest/gtest.h>

#include <vector>

#include "bootstrap/thread_world.h"

namespace hvd {
namespace {

/// Rank 0 of two nodes of one rank, which are connected by the tree and by a lane.
class WatchTest : public testing::Test {
 protected:
  WatchTest() {
    auto wirings = wire_threads({.size = 2, .node_sizes = {1, 1}});
    EXPECT_TRUE(wirings.is_ok()) << wirings.status().message();
    mine_ = std::move(wirings.value()[0]);
    theirs_ = std::move(wirings.value()[1]);
    watch_ = Watch::open(mine_).value();
    EXPECT_TRUE(watch_->add_lanes(0, mine_.lane).is_ok());
    EXPECT_EQ(ends(Deadline::after(std::chrono::milliseconds(1))), 0U);  // what is new, is writable
  }

  /// The ends of lanes that are told until the deadline, or until one is.
  std::size_t ends(Deadline deadline) {
    Watch::Events events;
    for (;;) {
      const auto told = watch_->wait(events, deadline);
      EXPECT_TRUE(told.is_ok());
      if (!told.value().empty() || deadline.has_passed()) return told.value().size();
    }
  }
  void close_lane() { theirs_.lane.clear(); }

  Wiring mine_;
  Wiring theirs_;
  std::unique_ptr<Watch> watch_;
};

TEST_F(WatchTest, WakesForItsLinks) {
  close_lane();
  EXPECT_EQ(ends(Deadline::after(std::chrono::seconds(60))), 1U);
}

TEST_F(WatchTest, LeavesLinksToACallerThatDrives) {
  watch_->leave_links();
  close_lane();
  EXPECT_EQ(ends(Deadline::after(std::chrono::milliseconds(20))), 0U);
  Watch::Events events;
  const auto told = watch_->look_at_links(events);
  ASSERT_EQ(told.value().size(), 1U);
  EXPECT_EQ(told.value().front().kind, Watch::Event::Kind::kLaneClosed);
  watch_->hear_links();
  EXPECT_EQ(ends(Deadline::after(std::chrono::milliseconds(20))), 0U) << "it is told once";
}

TEST_F(WatchTest, WakesForWhatCameWhileNobodyHeard) {
  watch_->leave_links();
  Watch::Events events;
  EXPECT_TRUE(watch_->look_at_links(events).value().empty());
  close_lane();
  watch_->hear_links();
  EXPECT_EQ(ends(Deadline::after(std::chrono::seconds(60))), 1U);
}

}  // namespace
}  // namespace hvd
