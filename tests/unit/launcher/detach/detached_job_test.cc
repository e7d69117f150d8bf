// SPDX-License-Identifier: Apache-2.0
#include "launcher/detach/detached_job.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace hvd {
namespace {

constexpr const char* kJob =
    R"({"host": "box", "pid": 7, "start": 99, "began": 5, "directory": "/w", "command": ["a", "b c"]})";

TEST(DetachedJob, IsReadAsItWasWritten) {
  const auto job = parse_detached_job(kJob);
  ASSERT_TRUE(job.is_ok());
  EXPECT_EQ(job.value().host, "box");
  EXPECT_EQ(job.value().pid, 7);
  EXPECT_EQ(job.value().start, 99U);
  EXPECT_EQ(job.value().command, (std::vector<std::string>{"a", "b c"}));
}

TEST(DetachedJob, AnythingElseIsRefused) {
  for (
      const std::string text :
      {"", "{}", "[1]", "7", R"({"host": 1})",
       R"({"host": "box", "pid": 7, "start": 9, "began": 5, "directory": "/w", "command": [1]})"}) {
    EXPECT_FALSE(parse_detached_job(text).is_ok()) << text;
  }
}

TEST(DetachedJob, HasAStateAsSeenFromAHost) {
  DetachedJob job = parse_detached_job(kJob).value();
  EXPECT_EQ(state_of(job, "box", true), DetachedState::kRuns);
  EXPECT_EQ(state_of(job, "box", false), DetachedState::kKilled);
  EXPECT_EQ(state_of(job, "other", false), DetachedState::kElsewhere);
  job.exit_code = 3;
  EXPECT_EQ(state_of(job, "other", true), DetachedState::kEnded);
  EXPECT_EQ(describe_state(job, DetachedState::kEnded), "ended with exit code 3");
}

TEST(DetachedJob, IsBelowTheFolderOfItsUser) {
  Environment environment;
  EXPECT_FALSE(detached_jobs_folder(environment).is_ok());
  environment.set("HOME", "/home/u");
  EXPECT_EQ(detached_jobs_folder(environment).value(), "/home/u/.local/state/hvdrun/jobs");
  environment.set("XDG_STATE_HOME", "relative");
  EXPECT_EQ(detached_jobs_folder(environment).value(), "/home/u/.local/state/hvdrun/jobs");
  environment.set("XDG_STATE_HOME", "/state");
  EXPECT_EQ(detached_jobs_folder(environment).value(), "/state/hvdrun/jobs");
}

TEST(DetachedJob, OfThoseThatHaveEndedTheLastTwentyAreKept) {
  const std::string jobs = testing::TempDir() + "hvd-detached-jobs";
  std::filesystem::remove_all(jobs);
  for (int i = 1; i <= 23; ++i) {
    auto made = make_detached_job(jobs);
    ASSERT_TRUE(made.is_ok()) << made.status().message();
    DetachedJob job = parse_detached_job(kJob).value();
    job.folder = made.value().folder;
    EXPECT_EQ(made.value().number, i);
    ASSERT_TRUE(write_detached_job(job).is_ok());
    ASSERT_TRUE(write_exit_code(job, i).is_ok());
  }
  const auto kept = read_detached_jobs(jobs);
  ASSERT_EQ(kept.size(), 21U) << "twenty, and the one that is made";
  EXPECT_EQ(kept.front().number, 3);
  EXPECT_EQ(kept.back().exit_code, 23);
  std::filesystem::remove_all(jobs);
}

}  // namespace
}  // namespace hvd
