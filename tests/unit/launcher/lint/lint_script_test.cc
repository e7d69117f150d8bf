// SPDX-License-Identifier: Apache-2.0
// Runs the rules over scripts/*.job: what is found, and what mending makes of them, are the
// golden files beside them. Run with --update to rewrite these, and review the diff.
#include "launcher/lint/lint_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "../golden.h"
#include "launcher/lint/live_rules.h"
#include "launcher/lint/report.h"
#include "launcher/lint/site_facts.h"
#include "lint_sites.h"

namespace hvd {
namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<std::filesystem::path> scripts() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(HVD_LINT_DIR "/scripts")) {
    if (entry.path().extension() == ".job") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

SiteConfig site_named(std::string_view id) {
  for (const SiteConfig& site : test_sites()) {
    if (site.id == id) return site;
  }
  return {};
}

/// The site of a script, as `hvdrun lint` finds it on a machine of no site; the page of IDRIS says
/// nothing that is Jean Zay's own.
SiteConfig site_for(const std::filesystem::path& path) {
  if (path.filename().string().starts_with("idris")) return site_named("jean-zay");
  const std::vector<SiteConfig> sites = test_sites();
  const SiteConfig* found = site_of_script(sites, parse_sbatch_file(text_of(path)));
  return found != nullptr ? *found : site_named("generic");
}

TEST(LintScript, FindsWhatTheGoldenFilesSay) {
  for (const std::filesystem::path& path : scripts()) {
    const SbatchFile file = parse_sbatch_file(text_of(path));
    const SiteConfig site = site_for(path);
    const LintedFile linted{
        .path = path.filename(), .site = site.id, .findings = lint_script(file, site, "")};
    expect_golden(std::filesystem::path(path).replace_extension(".golden"),
                  "site " + site.id + "\n" + report_text({linted}, false));
    const bool is_clean = path.filename().string().starts_with("clean");
    EXPECT_EQ(is_clean, is_clean && linted.findings.empty()) << path;
  }
}

TEST(LintScript, MendsAsTheGoldenFilesSayAndTwiceIsAsOnce) {
  for (const std::filesystem::path& path : scripts()) {
    const std::string text = text_of(path);
    const SiteConfig site = site_for(path);
    const MendedScript once = mend_script(text, site, "");
    const MendedScript twice = mend_script(once.text, site, "");
    EXPECT_EQ(twice.text, once.text) << path;
    EXPECT_TRUE(twice.changes.empty()) << path;
    EXPECT_EQ(once.changes.empty(), once.text == text) << path;
    if (once.text == text) continue;
    expect_golden(std::filesystem::path(path).replace_extension(".mended"), once.text);
    for (const Finding& finding : lint_script(parse_sbatch_file(once.text), site, "")) {
      EXPECT_FALSE(finding.edit) << path << ": " << finding.rule << " would be mended again";
    }
  }
}

TEST(LintScript, KnowsWhereSrunTakesTheCoresFromTheJob) {
  const SiteConfig generic = site_named("generic");
  const SbatchFile file =
      parse_sbatch_file("#!/bin/bash\n#SBATCH --cpus-per-task=8 --time=1\nsrun train\n");
  const std::pair<const char*, const char*> cases[] = {
      {"21.08", ""}, {"22.05.3", "warning"}, {"23.02", "warning"}, {"23.11.4", ""}, {"", "note"}};
  for (const auto& [slurm, severity] : cases) {
    const std::vector<Finding> findings = lint_script(file, generic, slurm);
    EXPECT_EQ(findings.empty() ? "" : severity_name(findings.front().severity), severity) << slurm;
  }
}

TEST(LintScript, FindsWhatSbatchRefusesAsAWhole) {
  const SiteConfig generic = site_named("generic");
  const std::pair<const char*, int> cases[] = {
      {"#SBATCH -t 1\ntrue\n", 1},
      {"\n#!/bin/bash\n#SBATCH -t 1\n", 1},
      {"#!/bin/bash\n#SBATCH -t 1\r\ntrue\n", 2},
      {"#!/bin/bash\n#SBATCH -t 1\ntrue\n", 0},
      {"export A=1\n", 0},  // no sbatch file
      {"", 0},
  };
  for (const auto& [text, line] : cases) {
    int found = 0;
    for (const Finding& finding : lint_script(parse_sbatch_file(text), generic, "")) {
      if (finding.rule == "no-batch-script") found = finding.line;
    }
    EXPECT_EQ(found, line) << text;
  }
  EXPECT_EQ(mend_script("#SBATCH -t 1\ntrue\n", generic, "").text,
            "#!/bin/bash\n#SBATCH -t 1\ntrue\n");
}

TEST(LintScript, TakesATimeOfZeroForNoLimit) {
  const SbatchFile file = parse_sbatch_file(
      "#!/bin/bash\n#SBATCH -A abc@v100 -N 1 --gres=gpu:1 --hint=nomultithread --time=0\n");
  const std::vector<Finding> findings = lint_script(file, site_named("jean-zay"), "");
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings.front().rule, "time-over-limit");
  EXPECT_FALSE(findings.front().edit);
}

TEST(LintScript, CountsMoreCoresThanFitInAnInt) {
  const SbatchFile file = parse_sbatch_file(
      "#!/bin/bash\n#SBATCH -A abc@v100 -N 1 --ntasks-per-node=65536 --gres=gpu:4 -c 65536 "
      "--hint=nomultithread --time=1:00:00\n");
  bool is_found = false;
  for (const Finding& finding : lint_script(file, site_named("jean-zay"), "")) {
    is_found = is_found || finding.rule == "too-many-cores";
  }
  EXPECT_TRUE(is_found);
}

TEST(LintScript, AsksForTheFewestFullNodes) {
  const SbatchFile file = parse_sbatch_file(
      "#!/bin/bash\n#SBATCH -A abc@v100 -N 8 --ntasks-per-node=4 --gres=gpu:5 -t 1:00:00\n");
  bool is_found = false;
  for (const Finding& finding : lint_script(file, site_named("jean-zay"), "")) {
    if (finding.rule != "too-many-gpus") continue;
    is_found = true;
    EXPECT_EQ(finding.fix, "ask for 4 on each of 10 nodes");
  }
  EXPECT_TRUE(is_found);
}

TEST(LiveRules, NoteWhereTheClusterDiffersForThePartitionAndQosOfTheJobAlone) {
  const std::vector<SiteQos> qos{test_qos("short", "20:00:00"), test_qos("long", "60:00:00")};
  SiteConfig site;
  site.partitions = {test_partition("here", 4, 10, "", qos),
                     test_partition("away", 4, 10, "", qos)};
  const LiveCluster live = parse_live_cluster(
      "PartitionName=here QoS=N/A MaxTime=90:00:00 State=UP TotalNodes=9\n"
      "PartitionName=away QoS=N/A MaxTime=80:00:00 State=UP TotalNodes=9\n",
      "short|10:00:00|||\nlong|50:00:00|||\n");
  const SbatchFile file =
      parse_sbatch_file("#!/bin/bash\n#SBATCH -p here -t 1:00:00\n#SBATCH -q short\nsrun x\n");
  std::vector<std::string> notes;
  for (const Finding& finding : check_live(file, site, live)) {
    EXPECT_EQ(finding.severity, Severity::kNote);
    notes.push_back(std::to_string(finding.line) + ": " + finding.why);
  }
  EXPECT_THAT(notes, testing::ElementsAre(
                         testing::StartsWith("2: partition here: max_time is 100:00:00"),
                         testing::StartsWith("3: QoS short of partition here: max_time is 20")));
}

TEST(LintScript, FindsTheSiteByWhatIsItsOwn) {
  const std::vector<SiteConfig> sites = test_sites();
  const std::pair<const char*, const char*> cases[] = {
      {"#SBATCH -A abc@h100\n", "jean-zay"},
      {"#SBATCH --partition=gpu_p2\n", "jean-zay"},
      {"#SBATCH --qos=qos_gpu-t4\n", "jean-zay"},
      {"#SBATCH -C gpu\nmodule load daint-gpu\n", "piz-daint"},
      {"#SBATCH --nodes=2\n", ""},
  };
  for (const auto& [text, id] : cases) {
    const SiteConfig* site = site_of_script(sites, parse_sbatch_file(text));
    EXPECT_EQ(site == nullptr ? "" : site->id, id) << text;
  }
}

}  // namespace
}  // namespace hvd
