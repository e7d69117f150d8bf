// SPDX-License-Identifier: Apache-2.0
// Allreduces of GPU memory at the root, from the first announcement to frozen buckets and back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/protocol/coordinator.h"

namespace hvd {
namespace {

using Lines = std::vector<std::string>;
constexpr Clock::time_point kBegin{};

/// Two ranks, and names of 400 bytes of which two fit into one bucket.
class CoordinatorBucketsTest : public testing::Test {
 protected:
  static Description gradient(std::int64_t floats = 100, DeviceKind device = DeviceKind::kCuda) {
    Description description;
    description.device = device;
    description.operation = Allreduce{};
    description.tensors.push_back({DataType::kFloat32, 0, {floats}});
    return description;
  }
  static RankSet ranks(std::initializer_list<int> list) {
    RankSet set(2);
    for (const int rank : list) set.add(rank);
    return set;
  }
  void announce(const std::string& name, const Description& description = gradient(),
                std::initializer_list<int> list = {0, 1}, bool cacheable = true) {
    coordinator_.announce({name, cacheable, description, ranks(list)}, kBegin);
  }
  void ready(std::initializer_list<std::uint32_t> ids) {
    for (const auto id : ids) coordinator_.ready(id, kBegin);
  }
  Lines decide(bool held = false) {
    Lines lines;
    coordinator_.hold(0, held);
    for (const ControlMessage& entry : coordinator_.decide()) {
      if (const auto* run = std::get_if<hvd::Run>(&entry)) {
        std::string line = run->bucket == 0 ? "run" : format_text("bucket {}:", run->bucket);
        for (const auto id : run->ids) line += format_text(" {}", id);
        lines.push_back(line + (run->name.empty() ? "" : " " + run->name));
      } else if (const auto* frozen = std::get_if<Frozen>(&entry)) {
        std::string line = "freeze";
        std::size_t bucket = 0;
        for (std::size_t i = 0; i < frozen->ids.size(); ++i) {
          line += format_text(" {}", frozen->ids[i]);
          if (i + 1 == frozen->ends[bucket] && ++bucket < frozen->ends.size()) line += " |";
        }
        lines.push_back(line);
      } else if (const auto* thawed = std::get_if<Thawed>(&entry)) {
        lines.push_back("thaw: " + thawed->text);
      } else if (std::holds_alternative<Failure>(entry)) {
        lines.emplace_back("failure");
      } else if (std::holds_alternative<Shutdown>(entry)) {
        lines.emplace_back("shutdown");
      }
    }
    return lines;
  }
  /// Three names, 0 to 2, learnt in two steps; the next of them freezes.
  void learn() {
    for (const char* name : {"a", "b", "c"}) announce(name);
    decide();
    ready({0, 1, 2});
    decide();
  }

  Coordinator coordinator_{{"x", "y"}, {1'000, std::chrono::milliseconds(10'000)}};
};

TEST_F(CoordinatorBucketsTest,
       AFrozenBucketLeavesAsOneRunOnceItsNamesAreCompleteThoughTheSetIsHeld) {
  learn();
  ready({1});
  EXPECT_EQ(decide(true), Lines{"freeze 0 1 | 2"});
  EXPECT_TRUE(coordinator_.has_pending());
  ready({0});
  EXPECT_EQ(decide(true), Lines{"bucket 1: 0 1"});
  ready({2});
  EXPECT_EQ(decide(true), Lines{"bucket 2: 2"});
  EXPECT_FALSE(coordinator_.has_pending());
  ready({2, 0, 1});
  EXPECT_EQ(decide(), (Lines{"bucket 2: 2", "bucket 1: 0 1"})) << "in the order of completion";
  EXPECT_EQ(coordinator_.frozen_steps(0), 1u);
}

TEST_F(CoordinatorBucketsTest, ACallWithoutANameIsInNoBucketAndThawsNone) {
  learn();
  ready({0, 1, 2});
  decide();
  const auto call = [this](std::int64_t floats) {
    coordinator_.announce({"allreduce.noname.0", true, gradient(floats), ranks({0, 1}), true},
                          kBegin);
    return decide();
  };
  EXPECT_EQ(call(10), Lines{"run 3"});
  EXPECT_EQ(call(20), Lines{"run allreduce.noname.0"}) << "it may be another call";
  EXPECT_EQ(call(20), Lines{"run 3"});
  ready({0, 1, 2});
  EXPECT_EQ(decide(), (Lines{"bucket 1: 0 1", "bucket 2: 2"}));
}

TEST_F(CoordinatorBucketsTest, TheWordOfEveryRankIsNeededForEachNameOfABucket) {
  learn();
  ready({0});
  decide();
  coordinator_.ready(1, ranks({1}), kBegin);
  EXPECT_EQ(decide(), Lines{});
  coordinator_.ready(1, ranks({0}), kBegin);
  EXPECT_EQ(decide(), Lines{"bucket 1: 0 1"});
}

TEST_F(CoordinatorBucketsTest, CpuMemoryAndOtherKindsAndNamesWithoutIdAreAsBefore) {
  learn();
  ready({0});
  EXPECT_EQ(decide(), Lines{"freeze 0 1 | 2"});
  announce("cpu", gradient(100, DeviceKind::kCpu));
  Description broadcast = gradient();
  broadcast.operation = Broadcast{0};
  announce("broadcast", broadcast);
  announce("once", gradient(), {0, 1}, false);
  EXPECT_EQ(decide(), (Lines{"run 3", "run 4", "run once"}));
  ready({1});
  EXPECT_EQ(decide(), Lines{"bucket 1: 0 1"}) << "nothing has thawed";
}

TEST_F(CoordinatorBucketsTest, CpuMemoryNeverFreezes) {
  for (int step = 0; step < 4; ++step) {
    announce("a", gradient(100, DeviceKind::kCpu));
    announce("b", gradient(100, DeviceKind::kCpu));
    EXPECT_EQ(decide(), Lines{"run 0 1"});
  }
}

TEST_F(CoordinatorBucketsTest, AnUrgeReleasesWhatIsCompleteAndThaws) {
  learn();
  ready({0});
  decide();
  coordinator_.urge({0, "rank 1 waits and has not submitted 'b'"});
  EXPECT_EQ(decide(), (Lines{"thaw: rank 1 waits and has not submitted 'b'", "run 0"}));
  coordinator_.urge({0, "rank 0 waits"});
  coordinator_.urge({7, "rank 0 waits"});
  EXPECT_EQ(decide(), Lines{}) << "nothing is frozen any more";
}

TEST_F(CoordinatorBucketsTest, ANewNameThawsAndIsLearnt) {
  learn();
  ready({0});
  decide();
  announce("new");
  EXPECT_EQ(decide(), (Lines{"thaw: 'new' is new", "run 0 3"}));
  ready({0, 1, 2, 3, 0, 1, 2});
  decide();
  ready({3});
  EXPECT_EQ(decide(), Lines{"freeze 3 0 | 1 2"}) << "in the order of the first of the equal steps";
}

TEST_F(CoordinatorBucketsTest, AChangedDescriptionThaws) {
  learn();
  ready({1});
  decide();
  announce("a", gradient(99));
  EXPECT_EQ(decide(), (Lines{"thaw: 'a' has changed", "run 1 0"}));
}

TEST_F(CoordinatorBucketsTest, AFailureOfANameOfABucketThaws) {
  learn();
  ready({0});
  decide();
  announce("b", gradient(99), {0});
  announce("b", gradient(98), {1});
  EXPECT_EQ(decide(), (Lines{"thaw: 'b' has failed", "failure", "run 0"}));
}

TEST_F(CoordinatorBucketsTest, AJoinThawsAndNothingFreezesUntilItEnds) {
  learn();
  ready({0});
  decide();
  coordinator_.join({1, 0, 0, false, {}});
  EXPECT_EQ(decide(), (Lines{"thaw: rank 1 joins", "run 0"}));
  for (int step = 0; step < 4; ++step) {
    for (const std::uint32_t id : {0U, 1U}) coordinator_.ready(id, ranks({0}), kBegin);
    EXPECT_EQ(decide(), Lines{"run 0 1"});
  }
}

TEST_F(CoordinatorBucketsTest, WhatWaitsInABucketRunsBeforeTheLogEnds) {
  learn();
  ready({0});
  decide();
  coordinator_.leave({1, {}});
  coordinator_.leave({0, {}});
  EXPECT_EQ(decide(), (Lines{"thaw: rank 1 leaves", "run 0", "shutdown"}));
}

TEST_F(CoordinatorBucketsTest, ProcessSetsFreezeByThemselves) {
  coordinator_.add_set(ranks({0, 1}));
  Description second = gradient();
  second.process_set = 1;
  announce("a");
  announce("a", second);
  decide();
  ready({0});
  decide();
  ready({0});
  EXPECT_EQ(decide(), (Lines{"freeze 0", "bucket 1: 0"}));
  ready({1});
  EXPECT_EQ(decide(), Lines{"run 1"});
  ready({1});
  EXPECT_EQ(decide(), (Lines{"freeze 1", "bucket 1: 1"}));
  coordinator_.remove_set(1);
  ready({0});
  EXPECT_EQ(decide(), Lines{"bucket 1: 0"});
}

TEST_F(CoordinatorBucketsTest, MoreUrgentBucketsThatAreCompleteAtOnceGoFirst) {
  Description urgent = gradient();
  urgent.priority = 1;
  announce("a");
  announce("b", urgent);
  decide();
  ready({0, 1});
  decide();
  ready({0, 1});
  EXPECT_EQ(decide(), (Lines{"freeze 0 | 1", "bucket 2: 1", "bucket 1: 0"}));
}

}  // namespace
}  // namespace hvd
