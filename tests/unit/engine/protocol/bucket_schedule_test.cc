// SPDX-License-Identifier: Apache-2.0
#include "engine/protocol/bucket_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hvd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Ids = BucketSchedule::Ids;

constexpr std::size_t kFirst = 100;
constexpr std::size_t kLater = 1'000;

Description gradient(std::int64_t floats, Operation operation = Allreduce{}) {
  Description description;
  description.device = DeviceKind::kCuda;
  description.operation = operation;
  description.tensors.push_back({DataType::kFloat32, 0, {floats}});
  return description;
}

/// Names are letters, ids their places in the alphabet, unless a test says so of 10 floats.
class BucketScheduleTest : public testing::Test {
 protected:
  static std::uint32_t id_of(char name) { return static_cast<std::uint32_t>(name - 'a'); }
  static std::string text_of(const Ids& ids) {
    std::string text;
    for (const auto id : ids) text += static_cast<char>('a' + static_cast<int>(id));
    return text;
  }
  /// What becomes of the names, one word a name: "x" leaves alone, "-" waits, "[1xy]" leave as
  /// bucket 1, "*" the schedule freezes, "~xy" it thaws and these leave.
  static std::string text_of(const BucketSchedule::Outcome& outcome) {
    std::string text = outcome.has_frozen ? "*" : "";
    if (!outcome.thawed.empty()) text += "~";
    text += text_of(outcome.alone);
    if (!outcome.bucket.empty()) {
      text += format_text("[{}{}]", outcome.number, text_of(outcome.bucket));
    }
    return text.empty() || text == "*" ? text + "-" : text;
  }
  std::string complete(const std::string& names) {
    std::string line;
    for (const char name : names) {
      const auto outcome = schedule_.complete(id_of(name), std::string(1, name), described(name));
      if (!outcome.thawed.empty()) reason_ = outcome.thawed;
      line += (line.empty() ? "" : " ") + text_of(outcome);
    }
    return line;
  }
  Description described(char name) {
    const auto found = descriptions_.find(name);
    return found == descriptions_.end() ? gradient(10) : found->second;
  }
  std::string buckets() {
    std::string line;
    for (const Ids& ids : schedule_.buckets()) line += (line.empty() ? "" : " ") + text_of(ids);
    return line;
  }

  std::map<char, Description> descriptions_;
  BucketSchedule schedule_{{kFirst, kLater}};
  std::string reason_;
};

TEST_F(BucketScheduleTest, LearnsWhileNamesLeaveAtOnceAndFreezesAfterTwoEqualSteps) {
  EXPECT_EQ(complete("abc"), "a b c");
  EXPECT_EQ(complete("abc"), "a b c");
  EXPECT_FALSE(schedule_.is_frozen());
  EXPECT_EQ(complete("abc"), "*- [1ab] [2c]") << "100 bytes hold two gradients of 40";
  EXPECT_EQ(buckets(), "ab c");
}

TEST_F(BucketScheduleTest, LearnsAnewWhenAnIdOfWhatItLearnsIsTakenBack) {
  EXPECT_EQ(complete("ab"), "a b");
  schedule_.forget(id_of('a'));
  EXPECT_EQ(complete("ab"), "a b");
  schedule_.forget(id_of('z'));
  EXPECT_EQ(complete("ab"), "a b") << "two steps, of which one is forgotten";
  EXPECT_EQ(complete("ab"), "*- [1ab]");
}

TEST_F(BucketScheduleTest, TableOfSteps) {
  struct Case {
    std::string steps;
    std::string becomes;
  };
  const Case cases[] = {
      {"ab ab ab ab", "a b a b *- [1ab] - [1ab]"},
      // The order of the first step makes the buckets, whatever the later ones do.
      {"ab ba ba ab", "a b b a *- [1ab] - [1ab]"},
      // Steps that differ never freeze.
      {"ab abc ab abc ab a", "a b a b c a b a b c a b a"},
      // A bucket of one name leaves as that is complete.
      {"a a a a", "a a *[1a] [1a]"},
      // A new name thaws: what waits leaves first. Then the steps are n b a, b a, b a.
      {"ab ab a n ba ba ba b", "a b a b *- ~an b a b a b a *-"},
      // A step that leaves a bucket out is a step; one that leaves half a bucket out is not.
      {"abc abc abc c c ab", "a b c a b c *- [1ab] [2c] [2c] [2c] - [1ab]"},
      {"abc abc abc ac c", "a b c a b c *- [1ab] [2c] - [2c] ~ac"},
      {"abc abc aa", "a b c a b c *- ~aa"},
  };
  for (const Case& one : cases) {
    schedule_ = BucketSchedule({kFirst, kLater});
    std::string names = one.steps;
    std::erase(names, ' ');
    EXPECT_EQ(complete(names), one.becomes) << one.steps;
  }
}

TEST_F(BucketScheduleTest, ABucketLeavesInTheOrderOfTheScheduleWhateverTheOrderOfItsNames) {
  complete("abab");
  EXPECT_EQ(complete("ba"), "*- [1ab]");
}

TEST_F(BucketScheduleTest, TheFirstBucketOfAKindIsSmallAndNoneIsOpenedAgain) {
  for (const char large : {'d', 'f'}) descriptions_[large] = gradient(300);  // 1200 bytes
  for (const char medium : {'c', 'e'}) descriptions_[medium] = gradient(150);
  complete("abcdefghabcdefgh");
  complete("a");
  // 80, then 600, 1200 alone, 600, 1200 alone, 80.
  EXPECT_EQ(buckets(), "ab c d e f gh");
}

TEST_F(BucketScheduleTest, OnlyWhatMayJoinSharesABucket) {
  descriptions_['b'] = gradient(10, Allreduce{ReduceOp::kMax});
  descriptions_['d'] = gradient(10);
  descriptions_['d'].priority = 1;
  descriptions_['f'].device = DeviceKind::kCuda;
  descriptions_['f'].tensors = {{DataType::kFloat32, 0, {1}}, {DataType::kFloat16, 0, {1}}};
  complete("abcdefabcdefa");
  EXPECT_EQ(buckets(), "ac b d e f") << "f has two element types and travels alone";
}

TEST_F(BucketScheduleTest, ANameWithSeveralTensorsStaysTogether) {
  descriptions_['b'].device = DeviceKind::kCuda;
  descriptions_['b'].tensors = {{DataType::kFloat32, 0, {10}}, {DataType::kFloat32, 0, {10}}};
  complete("ababa");
  EXPECT_EQ(buckets(), "a b") << "40 and 80 bytes are more than 100";
}

TEST_F(BucketScheduleTest, AChangedDescriptionThawsAndIsLearnt) {
  complete("ababa");
  descriptions_['b'] = gradient(11);
  EXPECT_EQ(complete("b"), "~ab");
  EXPECT_THAT(reason_, HasSubstr("'b' has changed"));
  EXPECT_EQ(complete("ababa"), "a b a *- [1ba]") << "steps begin with b from here on";
}

TEST_F(BucketScheduleTest, AThawFromOutsideReleasesWhatWaitsAndForgetsWhatWasLearnt) {
  complete("abcabcac");
  const auto outcome = schedule_.thaw("rank 1 joins");
  EXPECT_EQ(text_of(outcome.alone), "a");
  EXPECT_EQ(outcome.thawed, "rank 1 joins");
  EXPECT_EQ(schedule_.waiting(), 0U);
  complete("abab");
  EXPECT_TRUE(schedule_.thaw("rank 1 leaves").thawed.empty()) << "there was nothing to thaw";
  EXPECT_EQ(complete("ab"), "a b") << "two steps, as from the beginning";
  EXPECT_EQ(complete("ab"), "a b");
  EXPECT_EQ(complete("ab"), "*- [1ab]");
}

TEST_F(BucketScheduleTest, EachUrgeDoublesTheEqualStepsUntilItFreezesAgain) {
  complete("ababa");
  EXPECT_EQ(text_of(schedule_.urge("rank 1 waits")), "~a");
  EXPECT_EQ(complete("abababab"), "a b a b a b a b");
  EXPECT_EQ(complete("ab"), "*- [1ab]") << "after four";
  EXPECT_EQ(text_of(schedule_.urge("rank 1 waits")), "~");
  for (int step = 0; step < 8; ++step) EXPECT_EQ(complete("ab"), "a b");
  EXPECT_EQ(complete("ab"), "*- [1ab]") << "after eight";
}

TEST_F(BucketScheduleTest, AnUrgeWhileItLearnsChangesNothing) {
  complete("aba");
  EXPECT_EQ(text_of(schedule_.urge("rank 1 waits")), "-");
  EXPECT_EQ(complete("bab"), "b *- [1ab]");
}

TEST_F(BucketScheduleTest, CountsStepsThatRanInBuckets) {
  complete("abcabc");
  EXPECT_EQ(schedule_.frozen_steps(), 0U);
  complete("abcabca");
  EXPECT_EQ(schedule_.frozen_steps(), 2U);
}

}  // namespace
}  // namespace hvd
