// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/job_plan.h"

#include <gtest/gtest.h>

#include "../golden.h"
#include "launcher/console/shell_word.h"
#include "launcher/job/salloc.h"
#include "launcher/job/template.h"
#include "launcher/site/site_catalog.h"

namespace hvd {
namespace {

Result<std::string> header(const std::string& site, JobOptions options) {
  if (!options.command.empty()) options.action = JobAction::kScript;
  HVD_TRY_ASSIGN(const SiteConfig config, find_site(site, Environment()));
  HVD_TRY_ASSIGN(const JobPlan plan, plan_job(config, options));
  return options.command.empty() ? render_header(plan) : render_script(plan);
}

std::string refusal(const std::string& site, const JobOptions& options) {
  const Result<std::string> text = header(site, options);
  if (text.is_ok()) return "accepted:\n" + text.value();
  EXPECT_EQ(text.status().code(), Code::kInvalidArgument);
  return text.status().message();
}

struct GoldenCase {
  std::string file;
  std::string site;
  JobOptions options;
};

const std::vector<std::string> kTrain{"python3", "train.py", "--name", "it's a & b"};

std::vector<GoldenCase> golden_cases() {
  return {
      {"jean-zay-8.golden", "jean-zay", {.gpus = 8}},
      {"jean-zay-part-of-node.golden", "jean-zay", {.gpus = 2}},
      {"jean-zay-gpu_p2-16.golden", "jean-zay", {.partition = "gpu_p2", .gpus = 16}},
      {"jean-zay-v100-32g.golden", "jz", {.gpus = 4, .constraint = "v100-32g", .account = "xyz"}},
      {"jean-zay-h100-script.golden",
       "jean-zay",
       {.partition = "h100", .nodes = 2, .account = "xyz@h100", .command = kTrain}},
      {"piz-daint-2.golden", "piz-daint", {.nodes = 2}},
      {"piz-daint-script.golden", "piz-daint", {.nodes = 2, .command = kTrain}},
      {"generic-constraint.golden",
       "generic",
       {.partition = "debug",
        .gpus = 8,
        .nodes = 2,
        .cpus_per_task = 32,
        .constraint = "gpu&hbm80g",
        .qos = "regular",
        .output = "out-%j.log",
        .time = "1-00:00:00",
        .account = "m1234_g",
        .name = "bert"}},
      {"generic-cpu-script.golden", "generic", {.nodes = 4, .command = {"./my prog"}}},
  };
}

TEST(Header, MatchesTheGoldenFiles) {
  for (const GoldenCase& golden : golden_cases()) {
    const Result<std::string> text = header(golden.site, golden.options);
    ASSERT_TRUE(text.is_ok()) << golden.file << ": " << text.status().message();
    expect_golden(HVD_GOLDEN_DIR "/" + std::string(golden.file), text.value());
  }
}

/// What a site's own page, years old, asks for in its header.
struct PageCase {
  std::string site;
  JobOptions options;
  std::vector<std::string> lines;
};

TEST(Header, HoldsEveryLineOfTheSitesPages) {
  const std::vector<PageCase> cases{
      {"jean-zay",
       {.nodes = 2},
       {"--nodes=2", "--ntasks-per-node=4", "--gres=gpu:4", "--cpus-per-task=10",
        "--hint=nomultithread"}},
      {"jean-zay",
       {.partition = "gpu_p2", .nodes = 2},
       {"--partition=gpu_p2", "--nodes=2", "--ntasks-per-node=8", "--gres=gpu:8",
        "--cpus-per-task=3", "--hint=nomultithread"}},
      {"jean-zay",
       {.nodes = 4, .gpus_per_node = 3},
       {"--nodes=4", "--ntasks-per-node=3", "--gres=gpu:3", "--cpus-per-task=10"}},
      {"piz-daint",
       {.nodes = 2},
       {"--nodes=2", "--ntasks-per-core=1", "--ntasks-per-node=1", "--cpus-per-task=12",
        "--constraint=gpu"}},
  };
  for (const PageCase& page : cases) {
    const Result<std::string> text = header(page.site, page.options);
    ASSERT_TRUE(text.is_ok()) << text.status().message();
    for (const std::string& line : page.lines) {
      EXPECT_NE(text.value().find("\n#SBATCH " + line + "\n"), std::string::npos)
          << line << " is not in\n"
          << text.value();
    }
  }
}

struct RefusedCase {
  std::string site;
  JobOptions options;
  std::string message;
};

TEST(Header, RefusesWhatDoesNotFitAndSaysWhatDoes) {
  const std::vector<RefusedCase> cases{
      {"jean-zay", {}, "how large is the job? Type --gpus N or --nodes N"},
      {"jean-zay",
       {.gpus = 10},
       "10 GPUs do not divide over 3 nodes of 4 (partition gpu_p13 of site jean-zay): type --gpus "
       "9 (3 x 3) or --gpus 12 (3 x 4)"},
      {"jean-zay",
       {.gpus = 7},
       "7 GPUs do not divide over 2 nodes of 4 (partition gpu_p13 of site jean-zay): type --gpus 6 "
       "(2 x 3) or --gpus 8 (2 x 4)"},
      {"jean-zay",
       {.gpus = 9, .nodes = 2},
       "9 GPUs are more than 2 nodes of 4 have (partition gpu_p13 of site jean-zay): type --gpus 8 "
       "or --nodes 3"},
      {"jean-zay",
       {.gpus = 7, .nodes = 3},
       "7 GPUs do not divide over 3 nodes: type --gpus 6 or --gpus 9"},
      {"jean-zay",
       {.nodes = 2, .gpus_per_node = 5},
       "a node of partition gpu_p13 of site jean-zay has 4 GPUs, not 5: type --gpus-per-node 4 or "
       "less"},
      {"jean-zay",
       {.gpus = 8, .gpus_per_node = 3},
       "8 GPUs do not fill nodes of 3: type --gpus 6 or --gpus 9"},
      {"jean-zay",
       {.gpus = 8, .nodes = 4, .gpus_per_node = 3},
       "4 nodes of 3 GPUs are 12, not 8: leave out --gpus, or type --gpus 12"},
      {"jean-zay",
       {.gpus = 1, .ntasks_per_node = 11},
       "11 tasks are more than the 10 cores that the job has of a node of partition gpu_p13: type "
       "--ntasks-per-node 10 or less"},
      {"jean-zay",
       {.partition = "gpu_p9", .gpus = 8},
       "site jean-zay has no partition 'gpu_p9': it has gpu_p13, gpu_p2, gpu_p2s, "
       "gpu_p2l, gpu_p5, gpu_p6"},
      {"jean-zay",
       {.gpus = 4, .cpus_per_task = 11},
       "4 tasks of 11 cores are more than the 40 cores of a node of partition gpu_p13: type "
       "--cpus-per-task 10 or less"},
      {"jean-zay",
       {.gpus = 4, .time = "30:00:00"},
       "--time 30:00:00 is over the 20:00:00 of QoS qos_gpu-t3: type --qos qos_gpu-t4"},
      {"jean-zay",
       {.gpus = 4, .time = "300:00:00"},
       "--time 300:00:00 is over the 20:00:00 of QoS qos_gpu-t3: type --time 20:00:00 or less, or "
       "--time 100:00:00 or less with --qos qos_gpu-t4"},
      {"jean-zay",
       {.gpus = 4, .time = "0"},
       "--time 0 (no limit) is over the 20:00:00 of QoS qos_gpu-t3: type --time 20:00:00 or less, "
       "or --time 100:00:00 or less with --qos qos_gpu-t4"},
      {"jean-zay",
       {.gpus = 4, .qos = "qos_gpu-t4", .time = "5-00:00:00"},
       "--time 5-00:00:00 is over the 100:00:00 of QoS qos_gpu-t4: type --time 100:00:00 or less"},
      {"jean-zay",
       {.gpus = 4, .time = "tomorrow"},
       "'tomorrow' is not a time limit: type minutes, HH:MM:SS or DAYS-HH:MM:SS"},
      {"jean-zay",
       {.partition = "a100", .gpus = 8, .qos = "qos_gpu_h100-t3"},
       "QoS 'qos_gpu_h100-t3' is one of partition gpu_p6: type --partition gpu_p6, or for "
       "partition gpu_p5 --qos with one of qos_gpu_a100-t3, qos_gpu_a100-dev"},
      {"jean-zay",
       {.partition = "a100", .gpus = 8, .qos = "long"},
       "partition gpu_p5 has no QoS 'long': it has qos_gpu_a100-t3, qos_gpu_a100-dev"},
      {"jean-zay",
       {.gpus = 4, .array = "a-b"},
       "--array 'a-b' is not what sbatch takes: type for example 0-3, 0-9%2 or 1,5"},
      {"jean-zay",
       {.gpus = 4, .signal = "soon"},
       "--signal 'soon' is not what sbatch takes: type for example USR2@120 or B:USR2@120"},
      {"jean-zay",
       {.partition = "h100", .gpus = 64, .qos = "qos_gpu_h100-dev"},
       "64 GPUs are over the 32 of QoS qos_gpu_h100-dev: type --gpus 32, or "
       "--qos qos_gpu_h100-t3"},
      {"jean-zay",
       {.gpus = 4, .account = "xyz@h100"},
       "account 'xyz@h100' is not charged for partition gpu_p13: type --account xyz@v100"},
      {"jean-zay",
       {.gpus = 4, .account = "X Y"},
       "'X Y@v100' is not an account of site jean-zay: they look like xyz@v100"},
      {"jean-zay",
       {.gpus = 4, .name = "a b"},
       "--job-name 'a b' holds ' ', which a #SBATCH line cannot carry: leave it out"},
      {"jean-zay",
       {.gpus = 4, .output = "a\n#SBATCH"},
       "--output 'a\n#SBATCH' holds '\n', which a #SBATCH line cannot carry: leave it out"},
      {"piz-daint",
       {.nodes = 2, .gpus_per_node = 3},
       "a node of partition gpu of site piz-daint has 1 GPU and comes whole, not 3: type "
       "--gpus-per-node 1"},
      {"piz-daint",
       {.nodes = 2, .time = "25:00:00"},
       "--time 25:00:00 is over the 24:00:00 of partition gpu: type --time 24:00:00 or less"},
      {"generic",
       {.gpus = 8},
       "site generic does not know how many GPUs a node has: type --nodes N as well, or --site "
       "with a site that does"},
      {"generic",
       {.gpus = 7, .nodes = 2},
       "7 GPUs do not divide over 2 nodes: type --gpus 6 or --gpus 8"},
  };
  for (const RefusedCase& refused : cases) {
    EXPECT_EQ(refusal(refused.site, refused.options), refused.message);
  }
}

struct SizeCase {
  std::string site;
  JobOptions options;
  std::string size;  ///< nodes x tasks per node, GPUs per node, cores per task
};

TEST(JobSize, PicksNodesTasksAndCores) {
  const std::vector<SizeCase> cases{
      {"jean-zay", {.gpus = 8}, "2 x 4, 4, 10"},
      {"jean-zay", {.gpus = 6}, "2 x 3, 3, 10"},
      {"jean-zay", {.gpus = 3}, "1 x 3, 3, 10"},
      {"jean-zay", {.gpus = 4, .nodes = 2}, "2 x 2, 2, 10"},
      {"jean-zay", {.nodes = 4, .gpus_per_node = 3}, "4 x 3, 3, 10"},
      {"jean-zay", {.gpus = 12, .gpus_per_node = 3}, "4 x 3, 3, 10"},
      {"jean-zay", {.nodes = 1, .ntasks_per_node = 1}, "1 x 1, 4, 40"},
      {"jean-zay", {.gpus = 2, .ntasks_per_node = 1}, "1 x 1, 2, 20"},
      {"jean-zay", {.gpus = 2, .ntasks_per_node = 1, .exclusive = true}, "1 x 1, 2, 40"},
      {"jean-zay", {.partition = "gpu_p2", .gpus = 16}, "2 x 8, 8, 3"},
      {"piz-daint", {.gpus = 3}, "3 x 1, 1, 12"},
      {"generic", {.gpus = 8, .gpus_per_node = 4}, "2 x 4, 4, 0"},
      {"generic", {.nodes = 2, .gpus_per_node = 4}, "2 x 4, 4, 0"},
      {"generic", {.nodes = 2, .ntasks_per_node = 16}, "2 x 16, 0, 0"},
  };
  for (const SizeCase& wanted : cases) {
    const Result<SiteConfig> site = find_site(wanted.site, Environment());
    ASSERT_TRUE(site.is_ok()) << site.status().message();
    const Result<SitePartition> partition = choose_partition(site.value(), wanted.options);
    const Result<JobSize> size = plan_size(site.value(), partition.value(), wanted.options);
    ASSERT_TRUE(size.is_ok()) << wanted.size << ": " << size.status().message();
    EXPECT_EQ(format_text("{} x {}, {}, {}", size.value().nodes, size.value().tasks_per_node,
                          size.value().gpus_per_node, size.value().cores_per_task),
              wanted.size);
  }
}

TEST(ShellWord, QuotesOnlyWhatNeedsIt) {
  EXPECT_EQ(shell_word("train.py"), "train.py");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("a b"), "'a b'");
  EXPECT_EQ(shell_word("gpu&hbm80g"), "'gpu&hbm80g'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
}

TEST(ShellAssignment, KeepsAValueThatIsThere) {
  EXPECT_EQ(shell_assignment("A", "AWS Libfabric"), "A=\"${A-AWS Libfabric}\"");
  EXPECT_EQ(shell_assignment("A", "a\"$`}\\"), "A=\"${A-a\\\"\\$\\`\\}\\\\}\"");
}

}  // namespace
}  // namespace hvd
