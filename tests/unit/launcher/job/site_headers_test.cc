// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "../golden.h"
#include "launcher/job/job_plan.h"
#include "launcher/job/template.h"
#include "launcher/lint/lint_script.h"
#include "launcher/site/site_catalog.h"

namespace hvd {
namespace {

using testing::HasSubstr;
using testing::Not;

Result<std::string> site_header(const std::string& site, const JobOptions& options) {
  HVD_TRY_ASSIGN(const SiteConfig config, find_site(site, Environment()));
  HVD_TRY_ASSIGN(const JobPlan plan, plan_job(config, options));
  return render_header(plan);
}

std::string text_of(const std::string& site, const JobOptions& options) {
  const Result<std::string> text = site_header(site, options);
  return text.is_ok() ? text.value() : text.status().message();
}

/// Two whole nodes of each site's first partition, as its documentation asks for them.
TEST(SiteHeaders, OfEachSiteMatchesItsGoldenFile) {
  const std::vector<SiteEntry> entries = site_index(Environment()).value();
  for (const SiteEntry& entry : entries) {
    if (find_site(entry.id, Environment()).value().partitions.empty()) continue;  // generic, ...
    const auto text = site_header(entry.id, {.nodes = 2, .time = "01:00:00"});
    ASSERT_TRUE(text.is_ok()) << entry.id << ": " << text.status().message();
    expect_golden(HVD_GOLDEN_DIR "/sites/" + entry.id + ".golden", text.value());
  }
}

/// Each partition of each site can be asked for, with the QoS that the header picks.
TEST(SiteHeaders, OfEachPartitionFitsItsOwnLimits) {
  const std::vector<SiteEntry> entries = site_index(Environment()).value();
  for (const SiteEntry& entry : entries) {
    const SiteConfig site = find_site(entry.id, Environment()).value();
    for (const SitePartition& partition : site.partitions) {
      const auto text = site_header(site.id, {.partition = partition.name, .nodes = 1});
      EXPECT_TRUE(text.is_ok()) << site.id << " " << partition.name << ": "
                                << text.status().message();
    }
  }
}

TEST(SiteHeaders, ReproduceTheHeadersOfTheFoundingPages) {
  // IDRIS page on Horovod: whole nodes of four V100, and gpu_p2.
  EXPECT_EQ(text_of("jean-zay", {.gpus = 8, .time = "00:10:00"}),
            "#!/bin/bash\n"
            "#SBATCH --nodes=2\n"
            "#SBATCH --ntasks-per-node=4\n"
            "#SBATCH --gres=gpu:4\n"
            "#SBATCH --cpus-per-task=10\n"
            "#SBATCH --hint=nomultithread\n"
            "#SBATCH --time=00:10:00\n");
  EXPECT_EQ(text_of("jean-zay", {.partition = "gpu_p2", .gpus = 8, .time = "00:10:00"}),
            "#!/bin/bash\n"
            "#SBATCH --partition=gpu_p2\n"
            "#SBATCH --nodes=1\n"
            "#SBATCH --ntasks-per-node=8\n"
            "#SBATCH --gres=gpu:8\n"
            "#SBATCH --cpus-per-task=3\n"
            "#SBATCH --hint=nomultithread\n"
            "#SBATCH --time=00:10:00\n");
  // The same page: three GPUs on each of four nodes.
  EXPECT_THAT(text_of("jean-zay", {.nodes = 4, .gpus_per_node = 3}),
              HasSubstr("#SBATCH --ntasks-per-node=3\n#SBATCH --gres=gpu:3\n"));
  // CSCS course on Horovod, 2019: the GPU comes with the node.
  EXPECT_THAT(text_of("piz-daint", {.nodes = 8, .time = "00:10:00"}),
              HasSubstr("#SBATCH --constraint=gpu\n"
                        "#SBATCH --nodes=8\n"
                        "#SBATCH --ntasks-per-node=1\n"
                        "#SBATCH --cpus-per-task=12\n"
                        "#SBATCH --ntasks-per-core=1\n"
                        "#SBATCH --time=00:10:00\n"));
}

TEST(SiteHeaders, NameTheQosThatAJobMustNot) {
  // On Perlmutter a job without one gets debug, on MareNostrum 5 nodes without GPUs.
  EXPECT_THAT(text_of("perlmutter", {.gpus = 4}), HasSubstr("#SBATCH --qos=regular\n"));
  EXPECT_THAT(text_of("marenostrum5", {.gpus = 4}), HasSubstr("#SBATCH --qos=acc_ehpc\n"));
  EXPECT_THAT(text_of("jean-zay", {.gpus = 4}), Not(HasSubstr("--qos")));
  EXPECT_EQ(text_of("perlmutter", {.nodes = 9, .qos = "debug"}),
            "9 nodes are over the 8 of QoS debug: type --nodes 8, or --qos regular");
}

TEST(SiteHeaders, AskAsTheSiteWantsIt) {
  EXPECT_THAT(text_of("narval", {.gpus = 4}), HasSubstr("#SBATCH --gpus-per-node=a100:4\n"));
  EXPECT_THAT(text_of("berzelius", {.gpus = 16}), HasSubstr("#SBATCH --gpus=16\n"));
  EXPECT_THAT(text_of("perlmutter", {.partition = "hbm80g", .gpus = 4}),
              HasSubstr("#SBATCH --constraint=gpu&hbm80g\n"));
  const std::string vista = text_of("tacc-vista", {.gpus = 4});
  EXPECT_THAT(vista, HasSubstr("#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=1\n"));
  EXPECT_THAT(vista, Not(HasSubstr("gpus")));
  EXPECT_THAT(text_of("tacc-lonestar6", {.gpus = 4}),
              HasSubstr("type --gpus 3 (1 x 3) or --gpus 6 (2 x 3)"));
  EXPECT_THAT(text_of("perlmutter", {.gpus = 4, .mem = "64G"}), HasSubstr("#SBATCH --mem=64G\n"));
  EXPECT_EQ(
      text_of("marenostrum5", {.gpus = 4, .mem = "64G"}),
      "site marenostrum5 does not want --mem=64G: memory cannot be set on MareNostrum: it comes "
      "with the cores");
}

TEST(SiteHeaders, AskForNoGpusOfNodesThatHaveNone) {
  for (const GresStyle style :
       {GresStyle::kGres, GresStyle::kGpusPerNode, GresStyle::kGpus, GresStyle::kNone}) {
    SiteConfig site;
    site.id = "x";
    site.gres_style = style;
    site.partitions.resize(1);
    site.partitions[0].name = "cpu";
    site.partitions[0].cores_per_node = 8;
    const auto plan = plan_job(site, {.nodes = 2});
    ASSERT_TRUE(plan.is_ok()) << plan.status().message();
    EXPECT_THAT(render_header(plan.value()).value(), Not(HasSubstr("gpu")));
  }
}

TEST(SiteHeaders, KnowThatSmallJobsMayBeShorter) {
  EXPECT_EQ(text_of("frontier", {.nodes = 2, .time = "03:00:00"}),
            "--time 03:00:00 is over the 02:00:00 of partition batch for jobs of up to 91 nodes: "
            "type --time 02:00:00 or less");
  EXPECT_THAT(text_of("frontier", {.nodes = 92, .time = "06:00:00"}), HasSubstr("06:00:00\n"));
  EXPECT_THAT(text_of("frontier", {.nodes = 183, .time = "06:00:01"}), HasSubstr("183 nodes"));
  EXPECT_THAT(text_of("frontier", {.nodes = 184, .time = "12:00:00"}), HasSubstr("12:00:00\n"));
}

TEST(SiteHeaders, AreHeldAgainstTheLimitOfTheirSizeByLint) {
  const SiteConfig frontier = find_site("frontier", Environment()).value();
  for (const auto& [nodes, faulty] : {std::pair("91", true), std::pair("184", false)}) {
    const std::string text = std::string("#!/bin/bash\n#SBATCH --partition=batch\n#SBATCH -N ") +
                             nodes + "\n#SBATCH --time=12:00:00\n#SBATCH --account=ABC123\n";
    const auto findings = lint_script(parse_sbatch_file(text), frontier, "");
    const bool found = std::any_of(findings.begin(), findings.end(), [](const Finding& finding) {
      return finding.rule == "time-over-limit";
    });
    EXPECT_EQ(found, faulty) << nodes;
  }
}

TEST(SiteHeaders, ForAPartOfANodeHaveNoIdleGpusWhereTheQosShares) {
  const SiteConfig perlmutter = find_site("perlmutter", Environment()).value();
  for (const auto& [qos, idle] : {std::pair("", false), std::pair("regular", true)}) {
    const std::string text = text_of("perlmutter", {.gpus = 2, .qos = qos, .time = "00:10:00"});
    const auto findings = lint_script(parse_sbatch_file(text), perlmutter, "");
    const bool found = std::any_of(findings.begin(), findings.end(), [](const Finding& finding) {
      return finding.rule == "idle-gpus";
    });
    EXPECT_EQ(found, idle) << text;
  }
}

TEST(SiteHeaders, SayWhatIsAssumed) {
  EXPECT_THAT(text_of("jean-zay", {.gpus = 4}),
              HasSubstr("# The site file assumes these values, so verify them: time.\n"));
  EXPECT_THAT(text_of("jean-zay", {.gpus = 4, .time = "01:00:00"}), Not(HasSubstr("assumes")));
}

TEST(EmbeddedSites, AreRecognisedWhereTheyRun) {
  const std::tuple<std::string, std::string, std::string, std::string> cases[] = {
      // A variable and its value, the host name, the site.
      {"SLURM_CLUSTER_NAME", "jean-zay", "r6i4n0", "jean-zay"},
      {"", "", "jean-zay3", "jean-zay"},
      {"SLURM_CLUSTER_NAME", "daint", "nid005555", "alps-daint"},
      {"", "", "daint-ln002", "alps-daint"},
      {"", "", "clariden-ln001", "alps-clariden"},
      {"", "", "uan01.lumi.csc.fi", "lumi"},
      {"LMOD_SYSTEM_NAME", "frontier", "login05", "frontier"},
      {"NERSC_HOST", "perlmutter", "login12", "perlmutter"},
      {"", "", "lrdn1090", "leonardo"},
      {"SYSTEMNAME", "juwelsbooster", "jwb0001", "juwels-booster"},
      {"", "", "jpbo-101-01", "jupiter"},
      {"BSC_MACHINE", "mn5", "as01r1b01", "marenostrum5"},
      {"", "", "login2.karolina.it4i.cz", "karolina"},
      {"", "", "vglogin0001", "vega"},
      {"", "", "mel2001", "meluxina"},
      {"", "", "gcn12", "snellius"},
      {"", "", "berzelius1.nsc.liu.se", "berzelius"},
      {"CC_CLUSTER", "narval", "ng10101", "narval"},
      {"SLURM_CLUSTER_NAME", "delta", "gpub073", "delta"},
      {"SLURM_CLUSTER_NAME", "delta-gh", "gh001", "deltaai"},
      {"TACC_SYSTEM", "vista", "c608-011", "tacc-vista"},
      {"TACC_SYSTEM", "ls6", "c301-001", "tacc-lonestar6"},
      {"TACC_SYSTEM", "frontera", "c301-001", "generic"},
      {"", "", "node001", "generic"},
  };
  for (const auto& [name, value, host, id] : cases) {
    Environment environment;
    if (!name.empty()) environment.set(name, value);
    const auto site = detect_site(environment, host);
    ASSERT_TRUE(site.is_ok()) << site.status().message();
    EXPECT_EQ(site.value().id, id) << name << "=" << value << " " << host;
  }
}

}  // namespace
}  // namespace hvd
