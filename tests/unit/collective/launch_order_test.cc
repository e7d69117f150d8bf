// SPDX-License-Identifier: Apache-2.0
#include "collective/launch_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <random>

namespace hvd {
namespace {

using Sets = std::vector<std::vector<int>>;

std::unique_ptr<LaunchOrder> order_of(int rank, int size, const Sets& sets) {
  auto order = std::make_unique<LaunchOrder>(rank, size);
  for (std::size_t i = 0; i < sets.size(); ++i) order->add_set(static_cast<int>(i) + 1, sets[i]);
  return order;
}

TEST(LaunchOrder, LeavesSetsAloneThatShareThisRankOnly) {
  EXPECT_FALSE(order_of(0, 3, {{0, 1}, {0, 2}})->may_lock_out(1, 2));
  EXPECT_FALSE(order_of(2, 6, {{0, 1, 2}, {2, 3, 4}, {4, 5}})->may_lock_out(1, 2));
}

TEST(LaunchOrder, SetsWithASecondRankInCommonTakeTurns) {
  const auto order = order_of(1, 4, {{0, 1, 2}, {1, 2, 3}});
  EXPECT_TRUE(order->may_lock_out(1, 2));
  EXPECT_TRUE(order->may_lock_out(0, 1));
  EXPECT_TRUE(order->may_lock_out(2, 0));
  EXPECT_TRUE(order->may_lock_out(1, 9)) << "of a set that is not known, anything may be";
}

TEST(LaunchOrder, SetsThatOthersJoinIntoARingTakeTurns) {
  const auto order = order_of(0, 3, {{0, 1}, {0, 2}, {1, 2}});
  EXPECT_TRUE(order->may_lock_out(1, 2));
  order->remove_set(3);
  EXPECT_FALSE(order->may_lock_out(1, 2));
  // Rows and columns of a grid.
  EXPECT_TRUE(order_of(0, 4, {{0, 1}, {0, 2}, {2, 3}, {1, 3}})->may_lock_out(1, 2));
}

TEST(LaunchOrder, ATurnComesWhenTheEarlierOnesAreGone) {
  const auto order = order_of(0, 2, {{0}});
  LaunchTurn first = order->take_turn(0, {DeviceKind::kCuda, 0});
  const LaunchTurn alone = order->take_turn(1, {DeviceKind::kCuda, 0});
  EXPECT_TRUE(alone.has_come()) << "one rank waits for nobody";
  order->add_set(2, {0, 1});
  std::optional<LaunchTurn> second = order->take_turn(2, {DeviceKind::kCuda, 0});
  const LaunchTurn elsewhere = order->take_turn(2, {DeviceKind::kCuda, 1});
  const LaunchTurn third = order->take_turn(0, {DeviceKind::kCuda, 0});
  EXPECT_TRUE(first.has_come());
  EXPECT_FALSE(second->has_come());
  EXPECT_TRUE(elsewhere.has_come()) << "another GPU";
  LaunchTurn moved = std::move(first);
  EXPECT_FALSE(second->has_come());
  moved.drop();
  EXPECT_TRUE(second->has_come());
  EXPECT_TRUE(second->before().empty());
  EXPECT_FALSE(third.has_come());
  second.reset();
  EXPECT_TRUE(third.has_come());
  EXPECT_TRUE(LaunchTurn().has_come());
}

TEST(LaunchOrder, ASetThatIsAddedChangesNothingForEarlierTurns) {
  const auto order = order_of(0, 3, {{0, 1}, {0, 2}});
  const LaunchTurn left = order->take_turn(1, {DeviceKind::kCuda, 0});
  const LaunchTurn right = order->take_turn(2, {DeviceKind::kCuda, 0});
  order->add_set(3, {1, 2});
  const LaunchTurn later = order->take_turn(2, {DeviceKind::kCuda, 0});
  EXPECT_TRUE(left.has_come());
  EXPECT_TRUE(right.has_come());
  EXPECT_FALSE(right.has_come_of_all());
  EXPECT_TRUE(left.has_come_of_all());
  EXPECT_FALSE(later.has_come());
}

/// Ranks whose devices have room for one operation at a time, and take up what may begin in any
/// order. An operation ends when all its ranks run it.
class Devices {
 public:
  using Orders = std::function<bool(int rank, int one, int other)>;

  /// `log`: the process set of each operation. `takes_turns`: sets between which a rank keeps the
  /// order of the log.
  Devices(const Sets& sets, std::vector<int> log, Orders takes_turns)
      : sets_(sets), log_(std::move(log)), takes_turns_(std::move(takes_turns)) {}

  /// False: they wait for each other for ever.
  bool run(int size, std::minstd_rand& random) {
    running_.assign(static_cast<std::size_t>(size), kNothing);
    is_done_.assign(log_.size(), false);
    for (auto next = startable(); !next.empty(); next = startable()) {
      const auto [rank, operation] = next[random() % next.size()];
      running_[static_cast<std::size_t>(rank)] = operation;
      end(operation);
    }
    return std::find(is_done_.begin(), is_done_.end(), false) == is_done_.end();
  }

 private:
  static constexpr std::size_t kNothing = ~std::size_t{0};

  const std::vector<int>& ranks_of(std::size_t operation) const {
    return sets_[static_cast<std::size_t>(log_[operation]) - 1];
  }
  bool has(std::size_t operation, int rank) const {
    const std::vector<int>& ranks = ranks_of(operation);
    return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
  }
  bool may_start(int rank, std::size_t operation) const {
    if (is_done_[operation] || !has(operation, rank)) return false;
    for (std::size_t earlier = 0; earlier < operation; ++earlier) {
      if (is_done_[earlier] || !has(earlier, rank)) continue;
      if (log_[earlier] == log_[operation]) return false;  // in one stream
      if (takes_turns_(rank, log_[earlier], log_[operation])) return false;
    }
    return true;
  }
  std::vector<std::pair<int, std::size_t>> startable() const {
    std::vector<std::pair<int, std::size_t>> found;
    for (std::size_t rank = 0; rank < running_.size(); ++rank) {
      for (std::size_t operation = 0; operation < log_.size(); ++operation) {
        if (running_[rank] == kNothing && may_start(static_cast<int>(rank), operation)) {
          found.emplace_back(static_cast<int>(rank), operation);
        }
      }
    }
    return found;
  }
  void end(std::size_t operation) {
    const std::vector<int>& ranks = ranks_of(operation);
    const bool all = std::all_of(ranks.begin(), ranks.end(), [&](int rank) {
      return running_[static_cast<std::size_t>(rank)] == operation;
    });
    if (!all) return;
    is_done_[operation] = true;
    for (const int rank : ranks) running_[static_cast<std::size_t>(rank)] = kNothing;
  }

  const Sets& sets_;
  std::vector<int> log_;
  Orders takes_turns_;
  std::vector<std::size_t> running_;  ///< By rank.
  std::vector<bool> is_done_;
};

Sets random_sets(int size, std::minstd_rand& random) {
  Sets sets(2 + random() % 4);
  for (std::vector<int>& ranks : sets) {
    while (ranks.size() < 2) {
      ranks.clear();
      for (int rank = 0; rank < size; ++rank) {
        if (random() % 2 == 0) ranks.push_back(rank);
      }
    }
  }
  return sets;
}

TEST(LaunchOrder, NoDevicesWaitForEachOtherForEver) {
  std::minstd_rand random(5);
  int locked_without = 0;
  int locked_by_pairs = 0;
  int left_alone = 0;
  for (int trial = 0; trial < 20'000; ++trial) {
    const int size = 3 + static_cast<int>(random() % 3);
    const Sets sets = random_sets(size, random);
    std::vector<int> log(2 + random() % 7);
    for (int& set : log) set = 1 + static_cast<int>(random() % sets.size());
    std::vector<std::unique_ptr<LaunchOrder>> orders;
    orders.reserve(static_cast<std::size_t>(size));
    for (int rank = 0; rank < size; ++rank) orders.push_back(order_of(rank, size, sets));
    Devices devices(sets, log, [&](int rank, int one, int other) {
      const bool waits = orders[static_cast<std::size_t>(rank)]->may_lock_out(one, other);
      if (!waits) ++left_alone;
      return waits;
    });
    ASSERT_TRUE(devices.run(size, random)) << "trial " << trial;
    if (!Devices(sets, log, [](int, int, int) { return false; }).run(size, random)) {
      ++locked_without;
    }
    Devices pairs(sets, log, [&](int, int one, int other) {
      const std::vector<int>& a = sets[static_cast<std::size_t>(one) - 1];
      const std::vector<int>& b = sets[static_cast<std::size_t>(other) - 1];
      return std::count_if(a.begin(), a.end(), [&](int rank) {
               return std::find(b.begin(), b.end(), rank) != b.end();
             }) > 1;
    });
    if (!pairs.run(size, random)) ++locked_by_pairs;
  }
  EXPECT_GT(locked_without, 1'000);
  EXPECT_GT(locked_by_pairs, 10) << "to look at two sets alone is not enough";
  EXPECT_GT(left_alone, 100);
}

}  // namespace
}  // namespace hvd
