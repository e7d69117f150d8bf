// SPDX-License-Identifier: Apache-2.0
// What sites ask of jobs: sizes by QoS, a time limit, an account, clean modules.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/job/job_plan.h"
#include "launcher/job/template.h"
#include "launcher/site/site_catalog.h"

namespace hvd {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string demanded(const SiteConfig& site, const JobOptions& options) {
  const Result<JobPlan> plan = plan_job(site, options);
  if (!plan.is_ok()) return plan.status().message();
  return options.command.empty() ? render_header(plan.value()).value()
                                 : render_script(plan.value()).value();
}

std::string demanded(const std::string& site, const JobOptions& options) {
  return demanded(find_site(site, Environment()).value(), options);
}

TEST(QosLimits, HaveMinimaToo) {
  EXPECT_EQ(demanded("leonardo", {.nodes = 64, .qos = "boost_qos_bprod"}),
            "64 nodes are below the 65 of QoS boost_qos_bprod: type --nodes 65, or --qos normal");
  EXPECT_THAT(demanded("leonardo", {.nodes = 65, .qos = "boost_qos_bprod"}),
              HasSubstr("#SBATCH --qos=boost_qos_bprod\n"));
  EXPECT_EQ(demanded("leonardo", {.nodes = 65}),
            "65 nodes are over the 64 of QoS normal: type --nodes 64, or --qos boost_qos_bprod");
  SiteConfig site = find_site("leonardo", Environment()).value();
  site.partitions[0].qos[2].min_nodes.reset();
  site.partitions[0].qos[2].min_gpus = 260;
  EXPECT_EQ(demanded(site, {.nodes = 64, .qos = "boost_qos_bprod"}),
            "256 GPUs are below the 260 of QoS boost_qos_bprod: type --gpus 260, or --qos normal");
}

TEST(QosLimits, ThatAreAssumedAreAComment) {
  const std::string large = demanded("jean-zay", {.gpus = 1024});
  EXPECT_THAT(large, HasSubstr("# QoS qos_gpu-t3 may take 512 GPUs a job at most, and these are "
                               "1024: the site file assumes it, so verify it.\n"));
  EXPECT_THAT(demanded("jean-zay", {.gpus = 512}), Not(HasSubstr("may take")));
  EXPECT_THAT(demanded("jean-zay", {.gpus = 32, .qos = "qos_gpu-t4"}),
              HasSubstr("# QoS qos_gpu-t4 may take 16 GPUs a job at most, and these are 32"));
}

TEST(SharedNodes, AreForPartsOfANode) {
  const std::string part = demanded("perlmutter", {.gpus = 2, .command = {"prog"}});
  EXPECT_THAT(part, HasSubstr("#SBATCH --qos=shared\n"));
  EXPECT_THAT(part, HasSubstr("#SBATCH --gpus-per-node=2\n#SBATCH --cpus-per-task=32\n"));
  EXPECT_THAT(demanded("perlmutter", {.gpus = 4}), HasSubstr("#SBATCH --qos=regular\n"));
  EXPECT_THAT(demanded("perlmutter", {.gpus = 3}), HasSubstr("#SBATCH --qos=regular\n"));
  EXPECT_THAT(demanded("perlmutter", {.gpus = 2, .exclusive = true}),
              HasSubstr("#SBATCH --qos=regular\n"));
  // One task with the cores of its GPU, not of the node.
  EXPECT_THAT(demanded("perlmutter", {.gpus = 2, .ntasks_per_node = 1, .qos = "shared"}),
              HasSubstr("#SBATCH --cpus-per-task=64\n"));
}

TEST(SiteDemands, AreAskedForInHeadersAndBeforeSubmission) {
  const std::string header = demanded("frontier", {.nodes = 2});
  EXPECT_THAT(header, HasSubstr("# The site refuses a job without an account (assumed: verify it): "
                                "add --account (ABC123).\n"));
  EXPECT_THAT(header, HasSubstr("# The site refuses a job without a time limit (assumed: verify "
                                "it): add --time H:MM:SS, 02:00:00 at most.\n"));
  EXPECT_THAT(demanded("frontier", {.nodes = 2, .time = "01:00:00", .account = "ABC123"}),
              Not(HasSubstr("refuses")));
  EXPECT_EQ(demanded("lumi", {.nodes = 2, .action = JobAction::kSubmit}),
            "site lumi refuses a job without an account: type --account (they look like "
            "project_462000001)");
  SiteConfig lab = find_site("lumi", Environment()).value();
  lab.time_required = true;
  const JobOptions no_time{
      .nodes = 2, .account = "project_462000001", .action = JobAction::kSubmit};
  EXPECT_EQ(demanded(lab, no_time),
            "site lumi refuses a job without a time limit: type --time H:MM:SS, 2-00:00:00 at "
            "most");
}

TEST(SiteDemands, ATimeThatNobodyKnowsIsAComment) {
  for (const char* id : {"lumi", "leonardo", "perlmutter", "marenostrum5", "alps-daint"}) {
    EXPECT_THAT(demanded(id, {.nodes = 1}),
                HasSubstr("# Without --time a job gets the site's default, which is not known "
                          "here: add --time H:MM:SS, "))
        << id;
    EXPECT_THAT(demanded(id, {.nodes = 1, .time = "00:10:00"}), Not(HasSubstr("Without --time")));
  }
}

TEST(SiteDemands, JeanZayWantsCleanModules) {
  const std::string script =
      demanded("jean-zay", {.partition = "h100", .gpus = 4, .command = {"prog"}});
  EXPECT_THAT(script, HasSubstr("\nmodule purge\nmodule load arch/h100 || exit 1\n"));
  EXPECT_THAT(demanded("jean-zay", {.partition = "h100", .gpus = 4}),
              HasSubstr("# The script below must first: module purge; module load arch/h100\n"));
  EXPECT_THAT(demanded("jean-zay", {.gpus = 4, .command = {"prog"}}),
              Not(HasSubstr("module purge")))
      << "without a module to load the job keeps the modules of the shell that submits it";
  EXPECT_THAT(demanded("jean-zay", {.partition = "gpu_p2l", .gpus = 8}),
              HasSubstr("#SBATCH --partition=gpu_p2l\n"));
}

TEST(SiteDemands, MlSpaceHasNoScripts) {
  EXPECT_EQ(demanded("ml-space", {.gpus = 8, .command = {"prog"}}),
            "site ml-space has no batch system, so there is no job script to write: start the "
            "ranks in its container, with mpirun -np N hvdrun PROGRAM, or with hvdrun -np N "
            "PROGRAM on one machine");
}

}  // namespace
}  // namespace hvd
