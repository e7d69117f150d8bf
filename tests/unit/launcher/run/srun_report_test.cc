// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/srun_report.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace hvd {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

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

}  // namespace
}  // namespace hvd
