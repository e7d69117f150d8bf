// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>

#include "launcher/preempt/preempt_report.h"
#include "launcher/preempt/verdicts.h"

namespace hvd {
namespace {

using ::testing::HasSubstr;

/// Two ranks that end well, 0.4 s after the signal.
Trial good_trial() {
  Trial trial;
  trial.processes = 2;
  trial.started = SecondsSeen(1.25);
  trial.signalled = SecondsSeen(11.25);
  trial.handles = true;
  trial.end = SecondsSeen(0.4);
  trial.statuses = {{0, 0}, {1, 0}};
  return trial;
}

PreemptSeen seen_with(Trial first) {
  PreemptSeen seen;
  seen.signal = "USR2";
  seen.after = SecondsSeen(10);
  seen.grace = SecondsSeen(120);
  seen.first = std::move(first);
  seen.second = good_trial();
  return seen;
}

PreemptLine line_of(const std::vector<PreemptLine>& lines, std::string_view check) {
  for (const PreemptLine& line : lines) {
    if (line.check == check) return line;
  }
  ADD_FAILURE() << "no line " << check;
  return {};
}

/// The line about the signal, of a first or second run.
PreemptLine signal_line(const PreemptSeen& seen, bool second = false) {
  return line_of(judge_run(seen, second ? *seen.second : seen.first, second, {}), "signal");
}

TEST(TrialVerdicts, ARunThatEndsWellIsOk) {
  const PreemptSeen seen = seen_with(good_trial());
  const std::vector<PreemptLine> lines = judge_run(seen, seen.first, false, {});
  for (const PreemptLine& line : lines) EXPECT_EQ(line.verdict, PreemptVerdict::kOk) << line.text;
  EXPECT_EQ(line_of(lines, "start").text, "all 2 ranks were in hvd.init() after 1.2 s");
  EXPECT_EQ(line_of(lines, "signal").text, "the program ended 0.4 s after SIGUSR2, exit code 0");
}

TEST(TrialVerdicts, EachWayToFailHasItsSentenceAndRemedy) {
  struct Case {
    void (*change)(Trial& trial);
    const char* text;
    const char* remedy;
  };
  const Case cases[] = {
      {[](Trial& trial) {
         trial.statuses = {{0, SIGUSR2}, {1, SIGUSR2}};
       },
       "ended by SIGUSR2 itself (all 2 ranks: signal 12", "hvd.should_stop()"},
      {[](Trial& trial) { trial.statuses[1] = SIGUSR2; },
       "ended by SIGUSR2 itself (rank 1: signal 12", "hvd.should_stop()"},
      {[](Trial& trial) { trial.statuses[0] = W_EXITCODE(128 + SIGUSR2, 0); },
       "ended by SIGUSR2 itself (rank 0: exit code 140)", "hvd.should_stop()"},
      {[](Trial& trial) { trial.statuses[1] = W_EXITCODE(3, 0); },
       "ended 0.4 s after SIGUSR2, and failed (rank 1: exit code 3)", "exit code 0"},
      {[](Trial& trial) {
         trial.was_killed = true;
         trial.handles = false;
       },
       "ignores SIGUSR2: still there after 120.0 s", "hvd.should_stop()"},
      {[](Trial& trial) { trial.was_killed = true; },
       "handles the signal and does not end: still there 120.0 s after SIGUSR2", "--grace"},
      {[](Trial& trial) { trial.signalled.reset(); }, "before the signal: nothing was tested",
       "shorter --after"},
      {[](Trial& trial) {
         trial.signalled.reset();
         trial.statuses[0] = W_EXITCODE(7, 0);
       },
       "failed after 0.4 s, before the signal (rank 0: exit code 7)", "under hvdrun first"},
  };
  for (const Case& c : cases) {
    Trial trial = good_trial();
    c.change(trial);
    const PreemptLine line = signal_line(seen_with(trial));
    EXPECT_EQ(line.verdict, PreemptVerdict::kFailed) << line.text;
    EXPECT_THAT(line.text, HasSubstr(c.text));
    EXPECT_THAT(line.remedy, HasSubstr(c.remedy));
  }
}

TEST(TrialVerdicts, NamesRanksThatFailedAlikeTogether) {
  Trial trial = good_trial();
  for (int rank = 0; rank < 9; ++rank) trial.statuses[rank] = W_EXITCODE(rank == 8 ? 0 : 3, 0);
  trial.statuses[2] = SIGSEGV;
  EXPECT_THAT(signal_line(seen_with(trial)).text,
              HasSubstr("(ranks 0, 1, 3, 4 and 3 more: exit code 3; rank 2: signal 11 "));
}

TEST(TrialVerdicts, AFirstRunThatIsKilledIsNotAskedForMore) {
  PreemptSeen seen = seen_with(good_trial());
  seen.kill = true;
  const std::vector<PreemptLine> lines = judge_run(seen, seen.first, false, {});
  EXPECT_EQ(lines.size(), 2U);
  EXPECT_EQ(signal_line(seen).text, "SIGKILL to all processes after 11.2 s");
  EXPECT_THAT(signal_line(seen, true).text, HasSubstr("after SIGUSR2"));
}

TEST(TrialVerdicts, ASecondRunMayComeToItsEndAndMayNotFail) {
  PreemptSeen seen = seen_with(good_trial());
  seen.second->signalled.reset();
  EXPECT_EQ(signal_line(seen, true).verdict, PreemptVerdict::kOk);
  seen.second->statuses[1] = W_EXITCODE(1, 0);
  EXPECT_EQ(signal_line(seen, true).verdict, PreemptVerdict::kFailed);
  seen.kill = true;
  EXPECT_THAT(signal_line(seen, true).remedy, HasSubstr("cut short"));
}

TEST(TrialVerdicts, WithSrunOnlyTheExitCodeOfHvdrunIsKnown) {
  Trial trial = good_trial();
  trial.is_by_srun = true;
  trial.processes = 1;
  trial.statuses.clear();
  trial.handles.reset();
  EXPECT_EQ(signal_line(seen_with(trial)).verdict, PreemptVerdict::kOk);
  trial.exit_code = 128 + SIGUSR2;
  EXPECT_THAT(signal_line(seen_with(trial)).text, HasSubstr("by SIGUSR2 itself (exit code 140)"));
  PreemptSeen told = seen_with(trial);
  told.signal = "TERM";  // hvdrun returns 143 whatever the ranks do
  told.first.exit_code = 128 + SIGTERM;
  EXPECT_EQ(signal_line(told).verdict, PreemptVerdict::kOk);
  trial.signalled.reset();
  trial.started.reset();
  trial.was_killed = true;
  const std::vector<PreemptLine> lines = judge_run(told, trial, false, {});
  EXPECT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines.front().text, HasSubstr("the step of srun never began"));
}

TEST(TrialVerdicts, AProgramWithoutInitIsUnknownAndStillTested) {
  Trial trial = good_trial();
  trial.started.reset();
  const PreemptSeen seen = seen_with(trial);
  const std::vector<PreemptLine> lines = judge_run(seen, trial, false, {});
  EXPECT_EQ(line_of(lines, "start").verdict, PreemptVerdict::kUnknown);
  EXPECT_EQ(line_of(lines, "signal").verdict, PreemptVerdict::kOk);
}

TEST(TrialVerdicts, ProcessesThatAreLeftAreNamed) {
  Trial trial = good_trial();
  trial.left = 2;
  trial.left_command = "python3 writer.py";
  const PreemptSeen seen = seen_with(trial);
  const PreemptLine line = line_of(judge_run(seen, trial, false, {}), "processes");
  EXPECT_EQ(line.verdict, PreemptVerdict::kFailed);
  EXPECT_THAT(line.text, HasSubstr("2 still ran when the ranks had ended, and were killed: "
                                   "python3 writer.py"));
}

TEST(TrialVerdicts, TheLeadIsTwiceTheLongestEndAndNoShorterThanThatOfSbatch) {
  PreemptSeen seen = seen_with(good_trial());
  EXPECT_THAT(advise_lead(seen).text, HasSubstr("--signal=USR2@60, "));
  EXPECT_THAT(advise_lead(seen).text, HasSubstr("B:USR2@120,"));
  seen.second->end = SecondsSeen(94.2);
  EXPECT_THAT(advise_lead(seen).text, HasSubstr("it took 94.2 s"));
  EXPECT_THAT(advise_lead(seen).text, HasSubstr("--signal=USR2@190, "));
  seen.kill = true;  // the first run was not asked
  EXPECT_THAT(advise_lead(seen).text, HasSubstr("--signal=USR2@190, "));
  seen.second->was_killed = true;
  EXPECT_EQ(advise_lead(seen).verdict, PreemptVerdict::kUnknown);
}

TEST(PreemptReport, EndsWithWhatItMeans) {
  std::vector<PreemptLine> lines{{"first run", "start", PreemptVerdict::kOk, "began", ""}};
  EXPECT_EQ(preempt_report_text(lines),
            "first run\n  ok       start       began\n\nIt would survive.\n");
  lines.push_back({"second run", "resume", PreemptVerdict::kUnknown, "who knows", "look"});
  EXPECT_THAT(preempt_report_text(lines), HasSubstr("\n\nsecond run\n  unknown  resume      who "
                                                    "knows\n                       -> look\n"));
  EXPECT_THAT(preempt_report_text(lines), HasSubstr("as far as is known; 1 of 2 checks"));
  EXPECT_TRUE(would_survive(lines));
  lines.push_back({"job", "lead", PreemptVerdict::kFailed, "no", ""});
  EXPECT_THAT(preempt_report_text(lines), HasSubstr("It would not survive: 1 of 3 checks failed."));
  EXPECT_FALSE(would_survive(lines));
}

}  // namespace
}  // namespace hvd
