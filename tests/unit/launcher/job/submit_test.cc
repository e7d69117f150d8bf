// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "launcher/job/follow.h"
#include "launcher/job/job_command.h"
#include "launcher/job/pace.h"
#include "launcher/job/prepared_job.h"
#include "launcher/job/submission.h"

namespace hvd {
namespace {

TEST(Pace, GrowsUntilSomethingChanges) {
  using std::chrono::milliseconds;
  Pace pace{milliseconds(1000), milliseconds(3000)};
  for (const int wanted : {1000, 1500, 2250, 3000, 3000}) EXPECT_EQ(pace.next().count(), wanted);
  pace.restart();
  EXPECT_EQ(pace.next().count(), 1000);
}

TEST(Submission, SaysThatTheJobOfASilentSbatchMayBeQueued) {
  const Status silence = describe_silence("/w/run-1", std::chrono::seconds(180));
  EXPECT_EQ(silence.code(), Code::kTimeout);
  EXPECT_EQ(silence.message(),
            "sbatch gave no answer in 180 s and was killed; the job may be queued all the same: "
            "'squeue --me' shows it, and /w/run-1/command.sh submits it again where it does not");
}

TEST(Submission, LeavesOutWhatAnOuterJobSaidOfItself) {
  const Environment inside({{"SLURM_JOB_ID", "1"},
                            {"SLURM_CPUS_PER_TASK", "4"},
                            {"SLURM_CONF", "/etc/s.conf"},
                            {"FLUX_TASK_RANK", "0"},
                            {"MPI_LOCALRANKID", "0"},
                            {"TORCHELASTIC_RUN_ID", "x"},
                            {"PMIX_RANK", "0"},
                            {"HVD_SITE_PATH", "/s"},
                            {"HVD_RANK", "0"},
                            {"RANK", "0"},
                            {"WORLD_SIZE", "8"},
                            {"LOCAL_RANK", "0"},
                            {"LOCAL_WORLD_SIZE", "4"},
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

TEST(Submission, KnowsTheFolderThatItsOutputNeeds) {
  EXPECT_EQ(folder_of_output("logs/%j.out", "/home/me"), "/home/me/logs");
  EXPECT_EQ(folder_of_output("/scratch/a/b.out", "/home/me"), "/scratch/a");
  EXPECT_EQ(folder_of_output("%x/%j.out", "/home/me"), "") << "sbatch alone knows the name";
  EXPECT_EQ(folder_of_output("%j.out", "/home/me"), "");
  EXPECT_EQ(folder_of_output("/out", "/home/me"), "");
  EXPECT_EQ(folder_of_output("", "/home/me"), "");
}

TEST(Submission, KeepsAMasterOfTheUsersOwn) {
  const Environment inside({{"SLURM_JOB_ID", "1"},
                            {"HVD_MASTER_OF", "1.0/n1:20001"},
                            {"MASTER_ADDR", "mine"},
                            {"MASTER_PORT", "20001"}});
  EXPECT_EQ(describe_environment(submission_environment(inside)), "MASTER_ADDR=mine\n");
  const Environment unmarked({{"MASTER_ADDR", "n1"}, {"PATH", "/bin"}, {"RANK", "0"}});
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

TEST(Submission, LetsNoVariableWinOverTheHeader) {
  JobPlan plan;
  plan.directives = {{"time", "1:00"}, {"partition", "a"}, {"job-name", "j"}};
  const Environment environment(
      {{"SBATCH_TIMELIMIT", "9:00"}, {"SBATCH_PARTITION", "a"}, {"SBATCH_JOB_NAME", "k"}});
  const auto contradicted = contradicted_lines(plan, environment);
  ASSERT_EQ(contradicted.size(), 2U);
  EXPECT_EQ(describe_contradiction(contradicted[0]),
            "SBATCH_TIMELIMIT='9:00' of your environment does not count for this job, which has "
            "--time=1:00\nhint: for that value type --time=9:00");
  EXPECT_EQ(sbatch_command({.output = "x"}, {"/f", "/w"}, contradicted),
            (std::vector<std::string>{"sbatch", "--parsable", "--time=1:00", "--job-name=j",
                                      "--chdir=/w", "/f/job.sh"}));
}

TEST(PreparedJob, HidesSecretsWhereItIsOnlyShown) {
  JobOptions options{
      .site = "generic", .nodes = 2, .command = {"train", "--api-key=abc", "--lr=1"}};
  options.action = JobAction::kSubmit;
  const auto text = [&options] { return prepare_job(options, Environment()).value().text; };
  EXPECT_TRUE(text().find("train --api-key=abc --lr=1") != std::string::npos) << text();
  options.dry_run = true;
  EXPECT_TRUE(text().find("train '--api-key=(redacted)' --lr=1") != std::string::npos) << text();
}

TEST(Submission, KnowsTheVariablesThatHaveOtherNames) {
  JobPlan plan;
  plan.directives = {{"array", "0-3"}, {"mem", "4G"}, {"switches", "1"}, {"exclusive", ""}};
  const Environment environment({{"SBATCH_ARRAY_INX", "0-9"},
                                 {"SBATCH_MEM_PER_NODE", "1G"},
                                 {"SBATCH_REQ_SWITCH", "2"},
                                 {"SBATCH_EXCLUSIVE", "1"}});
  EXPECT_EQ(contradicted_lines(plan, environment).size(), 3U);
}

TEST(Submission, SaysThatTheSiteIsNotThisMachine) {
  SiteConfig far;
  far.id = "far";
  far.detect.hostname = "^far";
  SiteConfig near = far;
  near.id = "near";
  near.found_by = "SLURM_CLUSTER_NAME=near";
  SiteConfig nowhere;
  nowhere.id = "generic";
  EXPECT_EQ(
      elsewhere_note(far, near),
      "warning: site far is not this machine (which is near, by SLURM_CLUSTER_NAME=near): "
      "the job goes to the Slurm here\nhint: 'hvdrun script' with the same options prints it, "
      "to be submitted there");
  EXPECT_TRUE(elsewhere_note(far, nowhere).find("(no site claims it)") != std::string::npos);
  EXPECT_EQ(elsewhere_note(far, far), "");
  EXPECT_EQ(elsewhere_note(nowhere, near), "");  // a file that says nothing of its machines
}

/// Stand-ins for Slurm's commands, in a folder that goes with the test.
class SlurmCommands : public testing::Test {
 protected:
  SlurmCommands() { EXPECT_NE(::mkdtemp(folder_.data()), nullptr); }
  ~SlurmCommands() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& script) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    EXPECT_EQ(::chmod(path.c_str(), 0755), 0);
  }
  /// In a process of its own, which has no other commands.
  [[noreturn]] void submit(const JobOptions& options) const {
    // NOLINTBEGIN(concurrency-mt-unsafe): this process has one thread.
    ::clearenv();
    ::setenv("PATH", folder_.c_str(), 1);
    // NOLINTEND(concurrency-mt-unsafe)
    (void)::dup2(STDERR_FILENO, STDOUT_FILENO);
    std::_Exit(run_job(options));
  }
  /// In a process of its own, whose output and messages go to one place.
  [[noreturn]] void follow() const {
    (void)::dup2(STDERR_FILENO, STDOUT_FILENO);
    const Environment environment({{"PATH", folder_ + ":/usr/bin:/bin"}});
    const Result<int> code = follow_job("7", environment);
    if (!code.is_ok()) std::fprintf(stderr, "%s\n", code.status().message().c_str());
    std::_Exit(code.is_ok() ? code.value() : 99);
  }

  std::string folder_ = testing::TempDir() + "/commands.XXXXXX";
};

TEST_F(SlurmCommands, AnInteractiveJobBecomesSallocAndADryRunPrintsIt) {
  write("salloc", "exit 7");
  JobOptions options{
      .site = "jean-zay", .gpus = 1, .interactive = true, .command = {"train", "--lr=1"}};
  options.action = JobAction::kSubmit;
  EXPECT_EXIT(submit(options), testing::ExitedWithCode(7), "");
  options.dry_run = true;
  EXPECT_EXIT(submit(options), testing::ExitedWithCode(0),
              testing::ContainsRegex("salloc --job-name=train .* train --lr=1\n"));
}

TEST_F(SlurmCommands, EverySilenceOfTheControllerIsSaidWhileAJobIsFollowed) {
  // Its second and its fourth call are answered.
  write("scontrol",
        "for call in 1 2 3 4; do [ -e " + folder_ + "/$call ] || break; done\n: >" + folder_ +
            "/$call\n"
            "case $call in 2) state=RUNNING ;; 4) state=COMPLETED ;; *) exit 1 ;; esac\n"
            "echo JobId=7 JobName=j JobState=$state Reason=None ExitCode=0:0");
  EXPECT_EXIT(follow(), testing::ExitedWithCode(0),
              testing::ContainsRegex("scontrol: exit code 1; asking again\n"
                                     ".*job 7 is running.*"
                                     "scontrol: exit code 1; asking again\n"
                                     ".*job 7 ended: completed"));
}

}  // namespace
}  // namespace hvd
