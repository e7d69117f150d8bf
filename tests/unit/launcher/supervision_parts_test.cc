// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "launcher/console/exit_code.h"
#include "launcher/options/command_line.h"
#include "launcher/run/ending.h"
#include "launcher/run/srun_report.h"

namespace hvd {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Ending, GivesGraceThenSigtermThenSigkill) {
  const Clock::time_point start = Clock::now();
  Ending ending(seconds(10));
  EXPECT_TRUE(ending.rank_failed(7, start));
  EXPECT_FALSE(ending.rank_failed(9, start));
  EXPECT_EQ(ending.advance(start + seconds(9)), std::nullopt);
  EXPECT_EQ(ending.advance(start + seconds(10)), SIGTERM);
  EXPECT_EQ(ending.advance(start + seconds(14)), std::nullopt);
  EXPECT_EQ(ending.advance(start + seconds(15)), SIGKILL);
  EXPECT_TRUE(ending.next().is_forever());
  EXPECT_EQ(ending.exit_code(), 7);
}

TEST(Ending, HandsOnASignalOnceAndKillsTheSecondTime) {
  const Clock::time_point start = Clock::now();
  Ending ending(seconds(10));
  EXPECT_EQ(ending.told_to_end(SIGINT, start), SIGINT);
  EXPECT_FALSE(ending.rank_failed(1, start));
  EXPECT_EQ(ending.told_to_end(SIGINT, start + seconds(2)), SIGKILL);
  EXPECT_EQ(ending.exit_code(), exit_code_of_signal(SIGINT));
}

TEST(Ending, TakesASignalThatIsDeliveredTwiceForOne) {
  const Clock::time_point start = Clock::now();
  Ending ending(seconds(10));
  EXPECT_EQ(ending.told_to_end(SIGTERM, start), SIGTERM);
  EXPECT_EQ(ending.told_to_end(SIGTERM, start + std::chrono::milliseconds(900)), std::nullopt);
  EXPECT_EQ(ending.told_to_end(SIGINT, start + std::chrono::milliseconds(900)), std::nullopt);
  EXPECT_EQ(ending.told_to_end(SIGTERM, start + seconds(1)), SIGKILL);
}

TEST(Ending, CountsNoTimeInWhichTheJobWasStopped) {
  const Clock::time_point start = Clock::now();
  Ending ending(seconds(10));
  ending.was_stopped(seconds(5));
  EXPECT_TRUE(ending.next().is_forever());
  EXPECT_EQ(ending.told_to_end(SIGTERM, start), SIGTERM);
  ending.was_stopped(seconds(60));
  EXPECT_EQ(ending.advance(start + seconds(69)), std::nullopt);
  EXPECT_EQ(ending.advance(start + seconds(70)), SIGKILL);
}

TEST(Ending, IsNotHurriedByAHangUp) {
  const Clock::time_point start = Clock::now();
  Ending ending(seconds(10));
  EXPECT_EQ(ending.told_to_end(SIGINT, start), SIGINT);
  EXPECT_EQ(ending.told_to_end(SIGHUP, start + seconds(3)), std::nullopt);
  EXPECT_EQ(ending.advance(start + seconds(10)), SIGTERM);
}

TEST(Ending, IsNotHurriedByLostOutput) {
  const Clock::time_point start = Clock::now();
  Ending told(seconds(10));
  EXPECT_EQ(told.told_to_end(SIGINT, start), SIGINT);
  EXPECT_EQ(told.lost_reader(start + seconds(2)), std::nullopt);
  Ending failed(seconds(10));
  EXPECT_TRUE(failed.rank_failed(3, start));
  EXPECT_EQ(failed.lost_reader(start + seconds(2)), std::nullopt);
  Ending fresh(seconds(10));
  EXPECT_EQ(fresh.lost_reader(start), SIGTERM);
  EXPECT_EQ(fresh.exit_code(), exit_code_of_signal(SIGTERM));
}

TEST(Ending, ASignalAfterAFailureKeepsItsCode) {
  Ending ending(seconds(10));
  EXPECT_TRUE(ending.rank_failed(3, Clock::now()));
  EXPECT_EQ(ending.told_to_end(SIGTERM, Clock::now()), SIGTERM);
  EXPECT_EQ(ending.exit_code(), 3);
}

TEST(ExitCode, SaysThatACoreWasDumped) {
  EXPECT_EQ(describe_end(SIGABRT), "signal 6 (Aborted)");
  EXPECT_EQ(describe_end(SIGABRT | 0x80), "signal 6 (Aborted), core dumped");
}

TEST(SrunReport, ReadsFailuresOnly) {
  const auto exited = parse_task_failure("srun: error: jz1: task 2: Exited with exit code 7");
  ASSERT_TRUE(exited);
  EXPECT_EQ(exited->rank, 2);
  EXPECT_EQ(exited->host, "jz1");
  EXPECT_EQ(exited->exit_code, 7);
  EXPECT_EQ(exited->signal, 0);
  const auto killed = parse_task_failure("srun: error: jz2: tasks 4-5,7: Segmentation fault");
  ASSERT_TRUE(killed);
  EXPECT_EQ(killed->rank, 4);
  EXPECT_EQ(killed->what, "signal 11 (Segmentation fault)");
  EXPECT_EQ(killed->signal, 11);
  const auto starved = parse_task_failure("srun: error: jz1: task 3: Out Of Memory");
  ASSERT_TRUE(starved);
  EXPECT_EQ(starved->what, "killed, out of memory");
  EXPECT_EQ(starved->exit_code, 137);
  for (const std::string line :
       {"", "srun: error: jz1: task", "srun: error: jz1: task x: Killed", "srun: Job step done",
        "srun: error: Node failure on jz3", "srun: error: jz1: task 1", "3: srun: error: a"}) {
    EXPECT_FALSE(parse_task_failure(line)) << line;
  }
}

TEST(TaskFailureOrder, TakesTheKilledRankForTheFirst) {
  const Clock::time_point start = Clock::now();
  const TaskFailure gave_up{0, "jz1", "exit code 1", 1};
  const TaskFailure killed{2, "jz2", "signal 9 (Killed)", 137, 9};
  TaskFailureOrder order;
  EXPECT_TRUE(order.next().is_forever());
  order.told(gave_up, start);
  EXPECT_FALSE(order.take(start + milliseconds(400)));
  order.told(killed, start + milliseconds(400));
  const auto first = order.take(start + milliseconds(400));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->rank, 2);
  EXPECT_FALSE(order.take(start + seconds(9))) << "reported once";
  EXPECT_TRUE(order.next().is_forever());
}

TEST(TaskFailureOrder, TakesTheFirstToldWhereNoneWasKilled) {
  const Clock::time_point start = Clock::now();
  const TaskFailure raised{3, "jz2", "exit code 1", 1};
  const TaskFailure gave_up{1, "jz1", "exit code 255", 255};
  const TaskFailure aborted{0, "jz1", "signal 6 (Aborted)", 134, 6};
  TaskFailureOrder order;
  order.told(raised, start);
  order.told(aborted, start);
  order.told(gave_up, start);
  EXPECT_EQ(order.next().time(), start + seconds(1));
  const auto first = order.take(start + seconds(1));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->rank, 3);

  TaskFailureOrder ended;
  ended.told(raised, start);
  EXPECT_FALSE(ended.take(start));
  ended.end();
  EXPECT_TRUE(ended.take(start)) << "srun has no more to tell";
}

RunOptions parse(const std::vector<std::string>& arguments) {
  return std::get<RunOptions>(parse_command_line(arguments).value());
}

TEST(Options, EverythingFromTheProgramOnIsThePrograms) {
  EXPECT_EQ(parse({"-np", "2", "prog", "-np", "3", "--", "-x"}).command,
            (std::vector<std::string>{"prog", "-np", "3", "--", "-x"}));
  EXPECT_EQ(parse({"--", "-odd"}).command, std::vector<std::string>{"-odd"});
  EXPECT_EQ(parse({"run", "header"}).command, std::vector<std::string>{"header"});
  EXPECT_TRUE(parse({"explain", "prog"}).dry_run);
}

TEST(Options, ReadsEveryFlag) {
  const RunOptions options =
      parse({"-np",     "4",     "--nodes", "2", "-c",           "3", "--bind",      "cores",
             "-x",      "A=b=c", "-x",      "D", "--output-dir", "o", "--no-prefix", "--timestamp",
             "--grace", "0.5",   "-v",      "p"});
  EXPECT_EQ(options.ranks, 4);
  EXPECT_EQ(options.nodes, 2);
  EXPECT_EQ(options.cpus_per_rank, 3);
  EXPECT_EQ(options.bind.policy, BindPolicy::kCores);
  ASSERT_EQ(options.variables.size(), 2U);
  EXPECT_EQ(options.variables[0].value, "b=c");
  EXPECT_FALSE(options.variables[1].value);
  EXPECT_EQ(options.prefix, false);
  EXPECT_EQ(options.grace, milliseconds(500));
}

}  // namespace
}  // namespace hvd
