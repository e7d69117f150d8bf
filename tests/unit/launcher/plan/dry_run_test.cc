// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/dry_run.h"
#include "launcher/site/secret.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "../golden.h"

namespace hvd {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

MachineEnvironment machine_of(const Placement& placement) {
  SiteConfig site;
  site.id = "lab";
  const Provenance page{"page", "2026-01", "documented"};
  site.env = {{"NCCL_NET", "Socket", "nodes>1", "no other network", page},
              {"OLD", "1", "historical", "kept as text", page},
              {"FI_PROVIDER", "psm2", "always", "the fabric", page}};
  return plan_machine(site, {}, {placement.node_count / placement.virtual_nodes, 0}, false);
}

Allocation machine(Launch launch, const std::string& host, Variables variables) {
  Allocation allocation;
  allocation.launch = std::move(launch);
  allocation.environment = Environment(std::move(variables));
  allocation.host = host;
  allocation.hosts = {host};
  allocation.mask = {0, 1, 2, 3, 4, 5, 6, 7};
  for (int core = 0; core < 4; ++core) allocation.node.cores.push_back({{core, core + 4}, 0, 0});
  return allocation;
}

std::string explain(const RunOptions& options, const Allocation& allocation, const JobFacts& job) {
  const Placement placement = place(options, allocation).value();
  const EnvironmentPlan plan =
      plan_environment(options, allocation, machine_of(placement), placement, job);
  return describe_run(
      placement, plan,
      build_commands(options, placement, plan, {}, allocation.environment, "/opt/bin/hvdrun"));
}

TEST(DryRun, WrapsWhatItSaysOfVariablesToTheTerminal) {
  EnvironmentPlan plan;
  plan.all = {{"A", "1", "default", "one two three four five six seven eight nine ten", false}};
  plan.unset = {{"B", "2", "site", "one two three four five six seven eight nine ten", {}}};
  const std::string text = describe_run({}, plan, {}, 64);
  const std::string indent(32, ' ');
  EXPECT_TRUE(text.find("  A=1                           default: one two three four five\n" +
                        indent + "six seven eight nine ten\n") != std::string::npos)
      << text;
  EXPECT_TRUE(text.find("  B=2                           site: one two three four five\n" + indent +
                        "six seven eight nine ten\n") != std::string::npos)
      << text;
}

TEST(DryRun, ShowsRanksOnVirtualNodesAndHidesTheKey) {
  RunOptions options;
  options.ranks = 4;
  options.nodes = 2;
  options.command = {"prog", "a b"};
  const Allocation allocation =
      machine(LocalLaunch(), "box", {{"PYTHONUNBUFFERED", "x"}, {"PMIX_RANK", "0"}});
  expect_golden(HVD_GOLDEN_DIR "/dry-run-virtual-nodes.golden",
                explain(options, allocation, {"127.0.0.1:5", "secret", "m", "5:77"}));
}

TEST(DryRun, HidesSecretsThatAnotherValueTookThePlaceOf) {
  RunOptions options;
  options.ranks = 1;
  options.variables = {{"PROXY", "http://proxy"}};
  const Allocation allocation = machine(LocalLaunch(), "h", {{"PROXY", "http://me:pw@proxy:80/"}});
  const Placement placement = place(options, allocation).value();
  const EnvironmentPlan plan =
      plan_environment(options, allocation, machine_of(placement), placement, {});
  for (const PlannedVariable& variable : plan.all) {
    if (variable.name != "PROXY") continue;
    EXPECT_TRUE(variable.is_secret);
    EXPECT_EQ(variable.overridden.size(), 1U);
    return;
  }
  ADD_FAILURE() << "PROXY is not planned";
}

TEST(DryRun, HidesSecretsAmongTheArguments) {
  EXPECT_EQ(shown_arguments({"srun", "-x", "API_KEY=abc", "p.py", "--api-key=abc", "--token", "abc",
                             "--passes", "3", "--use-auth", "--lr=1", "monkey=3",
                             "https://me:abc@host/x"}),
            (std::vector<std::string>{"srun", "-x", "API_KEY=(redacted)", "p.py",
                                      "--api-key=(redacted)", "--token", "(redacted)", "--passes",
                                      "3", "--use-auth", "--lr=1", "monkey=3", "(redacted)"}));
}

TEST(DryRun, TellsProgramsTheSameWithoutTheKey) {
  RunOptions options;
  options.ranks = 2;
  options.json = true;
  options.command = {"prog", "a \"b\""};
  const Allocation allocation = machine(LocalLaunch(), "box", {});
  const Placement placement = place(options, allocation).value();
  const JobFacts job{"127.0.0.1:5", "secret", "m", "5:77"};
  const EnvironmentPlan plan =
      plan_environment(options, allocation, machine_of(placement), placement, job);
  const std::string json = describe_run_json(
      placement, plan,
      build_commands(options, placement, plan, {}, allocation.environment, "/opt/bin/hvdrun"));
  for (const char* part :
       {R"("size": 2)", R"("rank": 1)", R"("name": "HVD_STORE")", R"("value": "127.0.0.1:5")",
        R"("name": "HVD_JOB_KEY")", R"("a \"b\"")"}) {
    EXPECT_NE(json.find(part), std::string::npos) << part << " is not in\n" << json;
  }
  EXPECT_EQ(json.find("secret"), std::string::npos);
}

TEST(DryRun, ShowsTheSrunOfABatchShellAndWhatItsTasksAdd) {
  RunOptions options;
  options.variables = {{"A", "b c"}};
  options.site = "lab";
  options.command = {"python3", "train.py"};
  Allocation allocation = machine(SrunLaunch{.tasks_per_node = {3, 2}}, "login",
                                  {{"SLURM_JOB_ID", "7"},
                                   {"SLURM_NTASKS", "5"},
                                   {"SLURM_CPUS_PER_TASK", "10"},
                                   {"FI_PROVIDER", "tcp"}});
  allocation.hosts = {"jz1", "jz2"};
  expect_golden(HVD_GOLDEN_DIR "/dry-run-slurm-shell.golden",
                explain(options, allocation, {"", "", "m", ""}));
}

TEST(DryRun, ShowsWhatATaskOfAStepBecomes) {
  RunOptions options;
  options.bind.report = true;
  options.command = {"python3", "train.py"};
  Identity identity;
  identity.rank = 3;
  identity.size = 4;
  identity.local_rank = 1;
  identity.local_size = 2;
  identity.node = 1;
  identity.node_count = 2;
  identity.source = "Slurm step";
  Allocation allocation =
      machine(TaskLaunch{identity}, "jz2",
              {{"CUDA_VISIBLE_DEVICES", "2,3"}, {"HVD_REPORT_STEP", "0"}, {"SLURM_JOB_ID", "7"}});
  allocation.hosts = {"jz1", "jz2"};
  expect_golden(HVD_GOLDEN_DIR "/dry-run-task.golden", explain(options, allocation, {}));
}

}  // namespace
}  // namespace hvd
