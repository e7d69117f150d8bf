// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "launcher/job/capture.h"
#include "launcher/job/job_status.h"
#include "launcher/job/pace.h"
#include "launcher/job/submission.h"

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

TEST(Pace, GrowsUntilSomethingChanges) {
  using std::chrono::milliseconds;
  Pace pace{milliseconds(1000), milliseconds(3000)};
  for (const int wanted : {1000, 1500, 2250, 3000, 3000}) EXPECT_EQ(pace.next().count(), wanted);
  pace.restart();
  EXPECT_EQ(pace.next().count(), 1000);
}

TEST(Submission, LeavesOutWhatAnOuterJobSaidOfItself) {
  const Environment inside({{"SLURM_JOB_ID", "1"},
                            {"SLURM_CPUS_PER_TASK", "4"},
                            {"SLURM_CONF", "/etc/s.conf"},
                            {"PMIX_RANK", "0"},
                            {"HVD_SITE_PATH", "/s"},
                            {"HVD_RANK", "0"},
                            {"HVD_JOB_KEY", "f"},
                            {"HVD_MASTER_OF", "1.0/n1:20001"},
                            {"MASTER_ADDR", "n1"},
                            {"MASTER_PORT", "20001"},
                            {"PATH", "/bin"}});
  EXPECT_EQ(describe_environment(submission_environment(inside)),
            "HVD_SITE_PATH=/s\nPATH=/bin\nSLURM_CONF=/etc/s.conf\n");
  const Environment login({{"SLURM_TIME_FORMAT", "relative"}, {"SLURM_EXPORT_ENV", "ALL"}});
  EXPECT_EQ(submission_environment(login).variables(), login.variables());
}

TEST(Submission, KeepsAMasterOfTheUsersOwn) {
  const Environment inside({{"SLURM_JOB_ID", "1"},
                            {"HVD_MASTER_OF", "1.0/n1:20001"},
                            {"MASTER_ADDR", "mine"},
                            {"MASTER_PORT", "20001"}});
  EXPECT_EQ(describe_environment(submission_environment(inside)), "MASTER_ADDR=mine\n");
  const Environment unmarked({{"MASTER_ADDR", "n1"}, {"PATH", "/bin"}});
  EXPECT_EQ(submission_environment(unmarked).variables(), unmarked.variables());
}

std::string shown(const std::string& name, const std::string& value) {
  Environment environment;
  environment.set(name, value);
  return describe_environment(environment);
}

TEST(Submission, RedactsSecrets) {
  for (const char* name : {"HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "WANDB_API_KEY", "MY_KEYS",
                           "DB_PASSWORD", "HVD_JOB_KEY", "SLURM_JWT", "GITHUB_PAT", "auth",
                           "TOKENIZER_API_TOKEN", "tokenizers_token"}) {
    EXPECT_EQ(shown(name, "x"), std::string(name) + "=(redacted)\n");
  }
  for (const char* name : {"KEYBOARD", "MONKEY", "COMPASS", "AUTHOR", "PATH", "XAUTHORITY",
                           "TOKENIZERS_PARALLELISM"}) {
    EXPECT_EQ(shown(name, "x"), std::string(name) + "=x\n");
  }
  EXPECT_EQ(shown("PROXY", "http://me:pw@proxy:80/"), "PROXY=(redacted)\n");
  EXPECT_EQ(shown("PROXY", "http://proxy:80/a@b"), "PROXY=http://proxy:80/a@b\n");
  EXPECT_EQ(shown("M", "a\nb"), "M=a\\nb\n");
}

TEST(Submission, KeepsPathsAndSaysWhereTheOutputGoes) {
  const SubmissionPlaces places{"/home/me/50%/jobs/a-1", "/home/me"};
  EXPECT_EQ(sbatch_command({}, places),
            (std::vector<std::string>{"sbatch", "--parsable", "--chdir=/home/me",
                                      "--output=/home/me/50%%/jobs/a-1/%j.out",
                                      "/home/me/50%/jobs/a-1/job.sh"}));
  EXPECT_EQ(sbatch_command({.output = "x", .array = "0-1"}, places).size(), 4U);
}

TEST(Submission, SaysWhichVariablesWinOverTheHeader) {
  JobPlan plan;
  plan.directives = {{"time", "1:00"}, {"partition", "a"}, {"job-name", "j"}};
  const Environment environment(
      {{"SBATCH_TIMELIMIT", "9:00"}, {"SBATCH_PARTITION", "a"}, {"SBATCH_JOB_NAME", "k"}});
  EXPECT_EQ(overriding_variables(plan, environment),
            (std::vector<std::string>{
                "SBATCH_TIMELIMIT='9:00' of your environment wins over --time=1:00: unset it, or "
                "type that value",
                "SBATCH_JOB_NAME='k' of your environment wins over --job-name=j: unset it, or type "
                "that value"}));
}

TEST(Capture, GivesOutputErrorsAndEnd) {
  const Environment environment = Environment::of_process();
  const Deadline soon = Deadline::after(std::chrono::seconds(20));
  const auto captured = capture({"sh", "-c", "echo out; echo err >&2; exit 3"}, environment, soon);
  ASSERT_TRUE(captured.is_ok()) << captured.status().message();
  EXPECT_EQ(captured.value().output, "out\n");
  EXPECT_EQ(captured.value().errors, "err\n");
  EXPECT_FALSE(captured.value().succeeded());
  EXPECT_EQ(capture({"no-such-program"}, environment, soon).status().code(), Code::kUnsupported);
}

TEST(Capture, KillsWhatDoesNotEndInTime) {
  const auto captured = capture({"sleep", "60"}, Environment::of_process(),
                                Deadline::after(std::chrono::milliseconds(50)));
  EXPECT_EQ(captured.status().code(), Code::kTimeout);
}

}  // namespace
}  // namespace hvd
