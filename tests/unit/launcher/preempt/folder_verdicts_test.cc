// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/preempt/verdicts.h"

namespace hvd {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kSignalled = 100 * kSecond;

FileSeen file_at(double seconds, std::int64_t size = 1'200'000) {
  return {.size = size, .changed_ns = kSignalled + static_cast<std::int64_t>(seconds * 1e9)};
}

/// The first run wrote step-40 before the signal and step-57 after it; the second read that, and
/// wrote step-113.
PreemptSeen seen_files() {
  PreemptSeen seen;
  seen.signal = "USR2";
  seen.first.signalled_at_ns = kSignalled;
  seen.first.signalled = SecondsSeen(10);
  seen.second = seen.first;
  FolderSeen& folder = seen.folder;
  folder.folder = "checkpoints";
  folder.is_told = true;
  folder.at_signal.files = {{"step-40", file_at(-5)}};
  folder.after_first.files = {{"step-40", file_at(-5)}, {"step-57", file_at(0.3)}};
  folder.after_second.files = {{"step-57", file_at(0.3)}, {"step-113", file_at(30)}};
  folder.read = {"step-57"};
  return seen;
}

TEST(FolderVerdicts, ACheckpointThatWasWrittenAndReadIsOk) {
  const PreemptSeen seen = seen_files();
  const std::vector<PreemptLine> lines = judge_files(seen);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].text, "step-57 (1.2 MB) was written 0.3 s after the signal");
  for (const PreemptLine& line : lines) EXPECT_EQ(line.verdict, PreemptVerdict::kOk) << line.text;
  const PreemptLine resume = judge_resume(seen);
  EXPECT_EQ(resume.verdict, PreemptVerdict::kOk);
  EXPECT_EQ(resume.text, "step-57 was read; the first run left step-# 57, the second wrote 113");
}

TEST(FolderVerdicts, WorkThatIsNotSavedIsLost) {
  PreemptSeen seen = seen_files();
  seen.folder.after_first.files.erase("step-57");
  PreemptLine line = judge_files(seen).front();
  EXPECT_EQ(line.verdict, PreemptVerdict::kFailed);
  EXPECT_THAT(line.text, HasSubstr("the newest file, step-40, is 5.0 s older"));
  seen.first.is_by_srun = true;  // another node may have written what is not seen here
  EXPECT_EQ(judge_files(seen).front().verdict, PreemptVerdict::kUnknown);
  seen.first.is_by_srun = false;
  seen.folder.after_first.files.clear();
  EXPECT_THAT(judge_files(seen).front().text, HasSubstr("there is no file in checkpoints"));
}

TEST(FolderVerdicts, HalfFilesOfThisRunAreNamed) {
  PreemptSeen seen = seen_files();
  seen.folder.before.files = {{"old.tmp", file_at(-500)}};
  seen.folder.after_first.files["old.tmp"] = file_at(-500);
  EXPECT_EQ(judge_files(seen).back().verdict, PreemptVerdict::kOk);
  seen.folder.after_first.files["step-58.tmp"] = file_at(0.5);
  seen.folder.after_first.files["step-59"] = file_at(0.6, 0);
  EXPECT_EQ(judge_files(seen).front().verdict, PreemptVerdict::kOk) << "step-57 is whole";
  EXPECT_EQ(judge_files(seen).back().verdict, PreemptVerdict::kFailed);
  EXPECT_THAT(judge_files(seen).back().text, HasSubstr("step-58.tmp, step-59"));
  seen.kill = true;  // a node that fails may leave some
  EXPECT_TRUE(judge_files(seen).empty());
}

TEST(FolderVerdicts, WithoutAFolderNothingIsJudged) {
  PreemptSeen seen = seen_files();
  seen.folder.is_told = false;
  EXPECT_EQ(judge_files(seen).front().verdict, PreemptVerdict::kUnknown);
  EXPECT_THAT(judge_files(seen).front().text, HasSubstr("step-57"));
  EXPECT_EQ(judge_resume(seen).verdict, PreemptVerdict::kUnknown);
  seen.folder.after_first.files.erase("step-57");
  EXPECT_EQ(judge_files(seen).front().verdict, PreemptVerdict::kUnknown);
  seen.folder.at_signal.is_cut = true;
  EXPECT_THAT(judge_files(seen).front().text, HasSubstr("too many files"));
}

TEST(FolderVerdicts, ASecondRunThatBeginsAnewIsFound) {
  PreemptSeen seen = seen_files();
  seen.folder.read = std::set<std::string>();
  EXPECT_EQ(judge_resume(seen).verdict, PreemptVerdict::kFailed) << "nothing was read";
  seen.folder.read = {"step-57"};
  seen.folder.after_second.files = {{"step-20", file_at(30)}};
  EXPECT_THAT(judge_resume(seen).text,
              HasSubstr("began anew: the first run left step-# 57, the second wrote 20"));
}

TEST(FolderVerdicts, WhereReadsAreNotSeenNamesDecide) {
  PreemptSeen seen = seen_files();
  seen.folder.read.reset();
  EXPECT_EQ(judge_resume(seen).verdict, PreemptVerdict::kOk);
  seen.folder.after_second.files = {{"latest.pt", file_at(30)}};
  EXPECT_EQ(judge_resume(seen).verdict, PreemptVerdict::kUnknown);
  seen.folder.read = std::set<std::string>();
  seen.second->is_by_srun = true;  // another node may have read it
  EXPECT_EQ(judge_resume(seen).verdict, PreemptVerdict::kUnknown);
  seen.folder.after_first.files.clear();
  EXPECT_THAT(judge_resume(seen).text, HasSubstr("no checkpoint to go on from"));
}

}  // namespace
}  // namespace hvd
