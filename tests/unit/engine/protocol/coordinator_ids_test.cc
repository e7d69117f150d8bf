// SPDX-License-Identifier: Apache-2.0
// Ids that the root takes back from names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/protocol/coordinator.h"

namespace hvd {
namespace {

using testing::HasSubstr;

const Clock::time_point kEvictionStart{};

Description eviction_tensor(std::vector<std::int64_t> shape) {
  Description description;
  description.operation = Allreduce{};
  description.tensors.push_back({DataType::kFloat32, 0, std::move(shape)});
  return description;
}

/// A coordinator with eight ids, which may be taken back after ten uses of others.
class EvictionTest : public testing::Test {
 protected:
  using Lines = std::vector<std::string>;

  static RankSet ranks(std::initializer_list<int> list) {
    RankSet set(3);
    for (const int rank : list) set.add(rank);
    return set;
  }
  void announce(const std::string& name, std::initializer_list<int> list,
                Description description = eviction_tensor({4})) {
    coordinator_.announce({name, true, std::move(description), ranks(list)}, kEvictionStart);
  }
  /// The log as short text: "define x=0", "evict 1 from 0", "run 0 1", "run 'x'", "fail x".
  Lines decide() {
    Lines lines;
    for (const ControlMessage& entry : coordinator_.decide()) {
      if (const auto* define = std::get_if<Define>(&entry)) {
        lines.push_back(format_text("define {}={}", define->name, define->id));
      } else if (const auto* evict = std::get_if<Evict>(&entry)) {
        lines.push_back(format_text("evict {} from {}", evict->ids.size(), evict->ids.front()));
      } else if (const auto* run = std::get_if<hvd::Run>(&entry)) {
        std::string line = "run";
        for (const auto id : run->ids) line += format_text(" {}", id);
        if (!run->name.empty()) line += " '" + run->name + "'";
        lines.push_back(line);
      } else if (const auto* failure = std::get_if<Failure>(&entry)) {
        lines.push_back("fail " + failure->name);
        text_ = failure->text;
      }
    }
    return lines;
  }
  /// Uses of all ranks, in full; what the last of them says.
  Lines use(const std::string& name, int times = 1) {
    Lines lines;
    for (int i = 0; i < times; ++i) {
      announce(name, {0, 1, 2});
      lines = decide();
    }
    return lines;
  }
  void use_by_id(std::uint32_t id, int times) {
    for (int i = 0; i < times; ++i) {
      coordinator_.ready(id, kEvictionStart);
      decide();
    }
  }

  Coordinator coordinator_{{"a", "b", "c"}, {.fusion_bytes = 1'000, .ids = 8, .idle_uses = 10}};
  std::string text_;
};

TEST_F(EvictionTest, TakesTheIdThatWasNotUsedForLongestAndOnlyAfterAnAnswer) {
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g"}) use(name, 2);
  use_by_id(0, 1);
  EXPECT_EQ(use("h", 2), (Lines{"evict 1 from 1", "define h=7", "run 7"})) << "b, not a";
  EXPECT_EQ(use("i", 2), Lines{"run 'i'"}) << "all ids are taken until the ranks have answered";
  EXPECT_EQ(use("b"), Lines{"run 'b'"});
  coordinator_.evicted();
  EXPECT_EQ(use("i"), (Lines{"evict 1 from 2", "define i=1", "run 1"}));
  EXPECT_EQ(coordinator_.known_names(), 8U) << "b is forgotten, c not yet";
  coordinator_.evicted();
  EXPECT_EQ(coordinator_.known_names(), 7U);
}

TEST_F(EvictionTest, WhatIsUsedKeepsItsId) {
  std::uint32_t ids = 0;
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h"}) {
    use(name, 2);
    ++ids;
    for (std::uint32_t id = 0; id < ids; ++id) use_by_id(id, 1);
  }
  EXPECT_EQ(use("i", 2), Lines{"run 'i'"}) << "more names in a step than there are ids";
}

TEST_F(EvictionTest, WhatARankHasAnnouncedKeepsItsId) {
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) use(name, 2);
  coordinator_.ready(0, ranks({1}), kEvictionStart);
  use_by_id(5, 20);
  EXPECT_EQ(use("g", 2), (Lines{"define g=6", "run 6"}));
  EXPECT_EQ(use("h", 2), (Lines{"evict 1 from 1", "define h=7", "run 7"}));
}

TEST_F(EvictionTest, ABitFromBeforeCountsAsWhatItMeant) {
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g"}) use(name, 2);
  EXPECT_EQ(use("h", 2).front(), "evict 1 from 0");
  announce("a", {0});
  coordinator_.ready(0, ranks({1, 2}), kEvictionStart);
  EXPECT_EQ(decide(), Lines{"run 'a'"});
  coordinator_.ready(0, ranks({1}), kEvictionStart);
  announce("a", {0, 2}, eviction_tensor({5}));
  EXPECT_EQ(decide(), Lines{"fail a"});
  EXPECT_THAT(text_, HasSubstr("rank 1 has [4]"));
}

TEST_F(EvictionTest, ARemovedProcessSetGivesBackWhatIsEvictedToo) {
  coordinator_.add_set(ranks({0, 1, 2}));
  decide();
  Description description = eviction_tensor({4});
  description.process_set = 1;
  announce("a", {0, 1, 2}, description);
  announce("b", {0, 1, 2}, description);
  decide();
  for (const char* name : {"c", "d", "e", "f", "g"}) use(name, 2);
  EXPECT_EQ(use("h", 2).front(), "evict 1 from 0");
  coordinator_.remove_set(1);
  decide();
  EXPECT_EQ(use("i", 2), (Lines{"define i=1", "run 1"})) << "that of b";
  EXPECT_EQ(use("j", 2), Lines{"run 'j'"}) << "that of a may be announced yet";
  coordinator_.evicted();
  EXPECT_EQ(use("j").back(), "run 0");
}

TEST_F(EvictionTest, NothingIsTakenBackOnceARankHasLeft) {
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h"}) use(name, 2);
  coordinator_.evicted();
  use("h2", 2);
  use_by_id(7, 20);
  coordinator_.add_set(ranks({0, 1}));
  coordinator_.leave({2, {}});
  decide();
  Description description = eviction_tensor({4});
  description.process_set = 1;
  for (int i = 0; i < 3; ++i) {
    announce("i", {0, 1}, description);
    EXPECT_EQ(decide(), Lines{"run 'i'"});
  }
}

}  // namespace
}  // namespace hvd
