// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/growth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace hvd {
namespace {

using std::chrono::seconds;

const Clock::time_point kBegin = Clock::time_point() + std::chrono::hours(1);

/// A job of 6 ranks on jz1, jz2 and jz3, two on each.
class GrowingJob {
 public:
  GrowingJob() {
    for (const char* host : {"jz1", "jz1", "jz2", "jz2", "jz3", "jz3"}) growth_.came(host);
  }
  void lose_jz2() {
    need_.missing = 2;
    used_ = {"jz1", "jz3"};
    growth_.lost_with_node("jz2");
    growth_.lost_with_node("jz2");
  }
  /// "jz2: 2"
  std::string offer(int after_s, std::vector<std::string> nodes = {"jz1", "jz2", "jz3"}) {
    const auto is_used = [&](const std::string& host) {
      return std::find(used_.begin(), used_.end(), host) != used_.end();
    };
    const auto start = growth_.next(nodes, need_, 2, is_used, kBegin + seconds(after_s));
    if (!start) return "";
    const std::string grown = start->grown > 0 ? "+" + std::to_string(start->grown) : "";
    return start->host + ": " + std::to_string(start->count) + grown;
  }
  bool wants(int after_s) { return growth_.wants_nodes(need_, kBegin + seconds(after_s)); }

  Growth growth_;
  Growth::Need need_{.missing = 0, .aim = 6, .max_size = 6};
  std::vector<std::string> used_{"jz1", "jz2", "jz3"};
};

TEST(Growth, ANodeThatIsThereAgainGetsWhatWasLostWithIt) {
  GrowingJob job;
  EXPECT_FALSE(job.wants(0));
  job.lose_jz2();
  EXPECT_TRUE(job.wants(0));
  EXPECT_EQ(job.offer(0), "jz2: 2");
}

TEST(Growth, ATryThatFailsIsRepeatedAfterLongerAndLongerPauses) {
  GrowingJob job;
  job.lose_jz2();
  int tries = 0;
  std::vector<int> moments;
  for (int second = 0; second < 2000; ++second) {
    if (job.offer(second).empty()) continue;
    ++tries;
    moments.push_back(second);
  }
  EXPECT_EQ(moments, (std::vector<int>{0, 10, 30, 70, 150, 310}));
  EXPECT_EQ(tries, Growth::kMostTries);
  EXPECT_FALSE(job.wants(2000)) << "it is given up";
}

TEST(Growth, WhatHasComeIsNotOwedAnyMore) {
  GrowingJob job;
  job.lose_jz2();
  EXPECT_EQ(job.offer(0), "jz2: 2");
  job.growth_.came("jz2");
  EXPECT_EQ(job.offer(20), "jz2: 1");
  job.growth_.came("jz2");
  EXPECT_EQ(job.offer(100), "");
  EXPECT_FALSE(job.wants(100));
}

TEST(Growth, AProcessThatWasLostAloneIsNoReasonToAsk) {
  GrowingJob job;
  job.need_.missing = 1;
  EXPECT_FALSE(job.wants(0));
  EXPECT_EQ(job.offer(0), "");
}

TEST(Growth, ANodeThatIsNewReplacesOneThatIsLost) {
  GrowingJob job;
  job.lose_jz2();
  EXPECT_EQ(job.offer(0, {"jz1", "jz3", "jz4"}), "jz4: 2");
}

TEST(Growth, ANodeThatIsNewMakesTheJobLargerUpToItsMost) {
  GrowingJob job;
  job.need_.max_size = 7;
  EXPECT_TRUE(job.wants(0));
  EXPECT_EQ(job.offer(0, {"jz1", "jz2", "jz3", "jz4"}), "jz4: 1+1");
  EXPECT_FALSE(job.wants(30)) << "nobody misses it: once a minute";
  EXPECT_TRUE(job.wants(60));
}

TEST(Growth, StartsAsManyAsTheAimHasRisen) {
  Growth growth;
  growth.aim_changed(2, 2);
  EXPECT_EQ(growth.wanted(), 2);
  growth.started();
  growth.aim_changed(-1, 0);
  EXPECT_EQ(growth.wanted(), 0);
  // Down and up before anybody has left: nobody is missing.
  growth.aim_changed(-2, -2);
  growth.aim_changed(2, 0);
  EXPECT_EQ(growth.wanted(), 0);
}

}  // namespace
}  // namespace hvd
