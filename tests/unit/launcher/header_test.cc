// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/header.h"

#include <gtest/gtest.h>

#include "golden.h"
#include "launcher/job/template.h"
#include "launcher/site/site_catalog.h"

namespace hvd {
namespace {

Result<std::string> header(const std::string& site, const HeaderOptions& options) {
  HVD_TRY_ASSIGN(const SiteConfig config, find_site(site, Environment()));
  HVD_TRY_ASSIGN(const HeaderModel model, plan_header(config, options));
  return render_header(model);
}

std::string refusal(const std::string& site, const HeaderOptions& options) {
  const Result<std::string> text = header(site, options);
  if (text.is_ok()) return "accepted:\n" + text.value();
  EXPECT_EQ(text.status().code(), Code::kInvalidArgument);
  return text.status().message();
}

struct GoldenCase {
  std::string file;
  std::string site;
  HeaderOptions options;
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

struct RefusedCase {
  std::string site;
  HeaderOptions options;
  std::string message;
};

TEST(Header, RefusesWhatDoesNotFitAndSaysWhatDoes) {
  const std::vector<RefusedCase> cases{
      {"jean-zay", {}, "how large is the job? Type --gpus N or --nodes N"},
      {"jean-zay",
       {.gpus = 10},
       "10 GPUs do not fill nodes of 4 (site jean-zay, partition gpu_p13): type --gpus 8 or "
       "--gpus 12"},
      {"jean-zay",
       {.gpus = 4, .nodes = 2},
       "4 GPUs are 1 nodes of 4 in partition gpu_p13, not 2: leave out --nodes, or type --gpus 8"},
      {"jean-zay",
       {.partition = "gpu_p9", .gpus = 8},
       "site jean-zay has no partition 'gpu_p9': it has gpu_p13, gpu_p2, gpu_p5, gpu_p6"},
      {"jean-zay",
       {.gpus = 4, .cpus_per_task = 11},
       "4 tasks of 11 cores are more than the 40 cores of a node of partition gpu_p13: type "
       "--cpus-per-task 10 or less"},
      {"jean-zay",
       {.gpus = 4, .time = "30:00:00"},
       "--time 30:00:00 is over the 20:00:00 of QoS qos_gpu-t3: type --qos qos_gpu-t4"},
      {"jean-zay",
       {.gpus = 4, .qos = "qos_gpu-t4", .time = "5-00:00:00"},
       "--time 5-00:00:00 is over the 100:00:00 of QoS qos_gpu-t4: type --time 100:00:00 or less"},
      {"jean-zay",
       {.gpus = 4, .time = "tomorrow"},
       "'tomorrow' is no time limit: type minutes, HH:MM:SS or DAYS-HH:MM:SS"},
      {"jean-zay",
       {.partition = "a100", .gpus = 8, .qos = "qos_gpu_h100-t3"},
       "partition gpu_p5 has no QoS 'qos_gpu_h100-t3': it has qos_gpu_a100-t3, qos_gpu_a100-dev"},
      {"jean-zay",
       {.partition = "h100", .gpus = 64, .qos = "qos_gpu_h100-dev"},
       "64 GPUs are over the 32 of QoS qos_gpu_h100-dev: type --gpus 32"},
      {"jean-zay",
       {.gpus = 4, .account = "xyz@h100"},
       "account 'xyz@h100' is not charged for partition gpu_p13: type --account xyz@v100"},
      {"jean-zay",
       {.gpus = 4, .account = "X Y"},
       "'X Y@v100' is no account of site jean-zay: they look like xyz@v100"},
      {"jean-zay",
       {.gpus = 4, .name = "a b"},
       "--job-name 'a b' holds ' ', which a #SBATCH line cannot carry: leave it out"},
      {"jean-zay",
       {.gpus = 4, .output = "a\n#SBATCH"},
       "--output 'a\n#SBATCH' holds '\n', which a #SBATCH line cannot carry: leave it out"},
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

TEST(ShellWord, QuotesOnlyWhatNeedsIt) {
  EXPECT_EQ(shell_word("train.py"), "train.py");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("a b"), "'a b'");
  EXPECT_EQ(shell_word("gpu&hbm80g"), "'gpu&hbm80g'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
}

}  // namespace
}  // namespace hvd
