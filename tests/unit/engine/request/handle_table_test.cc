// SPDX-License-Identifier: Apache-2.0
#include "engine/request/handle_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>

namespace hvd {
namespace {

TEST(HandleTable, KnowsWhatItHasGiven) {
  HandleTable table(5);
  EXPECT_EQ(table.find(5), nullptr);
  EXPECT_EQ(table.take(5), nullptr);
  const auto first = std::make_shared<PendingRequest>();
  EXPECT_EQ(table.add(first), 5U);
  EXPECT_EQ(table.add(std::make_shared<PendingRequest>()), 6U);
  EXPECT_EQ(*table.find(5), first);
  EXPECT_EQ(table.take(5), first);
  EXPECT_EQ(table.take(5), nullptr) << "released";
  EXPECT_NE(table.find(6), nullptr);
}

TEST(HandleTable, TakesNoHandleForThatOfAnotherAtItsPlace) {
  HandleTable table(1);
  const std::uint64_t first = table.add(std::make_shared<PendingRequest>());
  table.take(first);
  std::uint64_t latest = 0;
  for (int i = 0; i < 64; ++i) {
    if (latest > 0) table.take(latest);
    latest = table.add(std::make_shared<PendingRequest>());
  }
  EXPECT_EQ(latest, first + 64) << "the place of the first";
  EXPECT_EQ(table.find(first), nullptr);
  EXPECT_EQ(table.find(first + 128), nullptr);
  EXPECT_NE(table.find(latest), nullptr);
}

TEST(HandleTable, LeavesOutTheHandlesOfTakenPlaces) {
  HandleTable table(1);
  const std::uint64_t kept = table.add(std::make_shared<PendingRequest>());
  std::uint64_t before = kept;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t handle = table.add(std::make_shared<PendingRequest>());
    EXPECT_GT(handle, before);
    before = handle;
    EXPECT_NE(table.take(handle), nullptr);
  }
  EXPECT_NE(table.find(kept), nullptr);
  EXPECT_GT(before, kept + 1000) << "it was passed over";
}

TEST(HandleTable, IsAMapWhateverIsTakenAndGiven) {
  std::mt19937 random(7);
  HandleTable table(1);
  std::map<std::uint64_t, PendingPtr> model;
  std::uint64_t last = 0;
  for (int i = 0; i < 20'000; ++i) {
    const bool grows = i / 2000 % 2 == 0;  // to a thousand, and back
    if (model.empty() || random() % 4 < (grows ? 3U : 1U)) {
      auto pending = std::make_shared<PendingRequest>();
      const std::uint64_t handle = table.add(pending);
      ASSERT_GT(handle, last);
      last = handle;
      model.emplace(handle, std::move(pending));
    } else {
      auto one = model.lower_bound(random() % (last + 1));
      if (one == model.end()) one = model.begin();
      ASSERT_EQ(table.take(one->first), one->second);
      model.erase(one);
    }
    const std::uint64_t asked = random() % (last + 2);
    const auto known = model.find(asked);
    const PendingPtr* const found = table.find(asked);
    ASSERT_EQ(found != nullptr, known != model.end());
    if (found != nullptr) {
      ASSERT_EQ(*found, known->second);
    }
  }
}

}  // namespace
}  // namespace hvd
