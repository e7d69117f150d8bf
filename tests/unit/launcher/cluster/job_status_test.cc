// SPDX-License-Identifier: Apache-2.0
#include "launcher/cluster/job_status.h"

#include <gtest/gtest.h>

#include "base/format.h"

namespace hvd {
namespace {

constexpr std::string_view kWaiting =
    "JobId=12 JobName=train UserId=me(1) Priority=42 JobState=PENDING Reason=Resources "
    "Dependency=(null) Requeue=1 Restarts=0 BatchFlag=1 ExitCode=0:0 StartTime=2026-11-21T20:00:00 "
    "Partition=gpu_p13 NodeList=(null) StdErr=/a b/12.out StdIn=/dev/null StdOut=/a b/12.out "
    "Power=\n";

TEST(JobStatus, ReadsTheLineOfScontrol) {
  const std::vector<JobStatus> all = parse_job_status(kWaiting);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].id, "12");
  EXPECT_EQ(all[0].output, "/a b/12.out");
  EXPECT_EQ(all[0].array_entry, -1);
  EXPECT_TRUE(all[0].is_pending());
  EXPECT_EQ(describe_job(all[0], "3 of 8"),
            "job 12 is pending (Resources), 3 of 8 in partition gpu_p13, expected to start at "
            "2026-11-21T20:00:00");
}

TEST(JobStatus, TakesNoFieldFromWhatTheUserNamed) {
  const std::vector<JobStatus> all = parse_job_status(
      "JobId=12 JobName=x JobState=COMPLETED UserId=you UserId=me(1) GroupId=us(2) "
      "JobState=RUNNING Reason=None Restarts=0 ExitCode=0:0 Partition=p NodeList=n1 "
      "Command=/a JobState=FAILED/x.sh WorkDir=/w Comment=an StdOut=elsewhere "
      "StdErr=/runs/my lr=0.1/LR=2/12.out StdIn=/dev/null "
      "StdOut=/runs/my lr=0.1/LR=2 Epoch=3/12.out TresPerNode=gres/gpu:4 MailUser=me\n"
      "JobId=13 JobName=p UserId=me(1) JobState=PENDING Reason=None StdOut=/o/a b.out Power=\n");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].state, "RUNNING");
  EXPECT_EQ(all[0].output, "/runs/my lr=0.1/LR=2 Epoch=3/12.out");
  EXPECT_EQ(all[1].output, "/o/a b.out");
}

TEST(JobStatus, TellsTheEntriesOfAnArrayApart) {
  const std::vector<JobStatus> all = parse_job_status(
      "JobId=7 ArrayJobId=7 ArrayTaskId=2-9%2 JobState=PENDING Reason=JobArrayTaskLimit\n"
      "JobId=8 ArrayJobId=7 ArrayTaskId=0 JobState=RUNNING Reason=None NodeList=jz1 Restarts=2\n"
      "\nNo such line\n");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].id, "7_2-9%2");
  EXPECT_EQ(all[0].array_entry, -1);
  EXPECT_EQ(all[1].id, "7_0");
  EXPECT_EQ(all[1].array_entry, 0);
  EXPECT_EQ(describe_job(all[1], ""), "job 7_0 is running on jz1, restarts: 2");
}

struct EndCase {
  std::string state;
  std::string exit_code;
  int code;
  std::string text;
};

TEST(JobStatus, GivesTheExitCodeOfAShell) {
  const std::vector<EndCase> cases{
      {"COMPLETED", "0:0", 0, "job 1 ended: completed"},
      {"FAILED", "7:0", 7, "job 1 ended: failed, exit code 7"},
      {"FAILED", "0:9", 137, "job 1 ended: failed, signal 9 (Killed)"},
      {"TIMEOUT", "0:15", 143, "job 1 ended: timeout, signal 15 (Terminated)"},
      {"CANCELLED", "0:0", 1, "job 1 ended: cancelled, exit code 0"},
      {"NODE_FAIL", "0:0", 1, "job 1 ended: node fail, exit code 0"},
      {"FAILED", "0:53", 1,
       "job 1 ended: failed, the node could not start it (0:53): the folder of its output, or the "
       "folder that it runs in, is not there or not writable"},
      {"OUT_OF_MEMORY", "1:0", 1, "job 1 ended: out of memory, exit code 1"},
  };
  for (const EndCase& end : cases) {
    const std::vector<JobStatus> all = parse_job_status(
        format_text("JobId=1 JobState={} ExitCode={} Partition=p", end.state, end.exit_code));
    ASSERT_EQ(all.size(), 1U);
    EXPECT_TRUE(all[0].has_ended()) << end.state;
    EXPECT_EQ(all[0].shell_code(), end.code) << end.state;
    EXPECT_EQ(describe_job(all[0], ""), end.text);
  }
}

TEST(QueuePlace, CountsThoseBefore) {
  EXPECT_EQ(queue_place("9\n12\n14_[0-3%2]\n", "12"), "2 of 3");
  EXPECT_EQ(queue_place("9\n12\n14_[0-3%2]\n", "14_0-3%2"), "3 of 3");
  EXPECT_EQ(queue_place("9\n", "12"), "");
  EXPECT_EQ(queue_place("", "12"), "");
}

}  // namespace
}  // namespace hvd
