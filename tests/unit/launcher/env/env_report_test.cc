// SPDX-License-Identifier: Apache-2.0
#include "launcher/env/env_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "../golden.h"
#include "launcher/env/elsewhere.h"
#include "launcher/env/sites_report.h"
#include "launcher/site/site_catalog.h"

namespace hvd {
namespace {

using testing::HasSubstr;
using testing::Not;

/// A plan with each origin, a value that needs quotes, and a secret.
EnvReport report() {
  const Provenance wiki{"https://wiki.example.org", "2026-09-30", "documented"};
  EnvironmentPlan plan;
  plan.all = {
      {"HVD_SIZE", "2", "hvdrun", "ranks of the job"},
      {"NCCL_DEBUG", "INFO", "command line", "-x", false, {}, {{"WARN", "user environment"}}},
      {"NCCL_NET",
       "Socket",
       "user environment",
       "instead of site lab",
       false,
       {},
       {{"AWS Libfabric", "site lab"}}},
      {"NCCL_SOCKET_IFNAME", "hsn0,hsn1", "fabric slingshot-11", "not a management network", false,
       wiki},
      {"QUOTED", "it's $HOME `x`\\ \"y\"", "site lab", "hard to quote", false, wiki},
      {"WANDB_API_KEY", "abc", "site lab", "a secret", false, wiki, {{"def", "fabric x"}}},
  };
  plan.each_rank = {{{"HVD_RANK", "0", "hvdrun", "rank"},
                     {"OMP_NUM_THREADS", "8", "default", "cores of the rank"}}};
  plan.unset = {{"OLD", "1", "site lab", "historical: kept as text, never set", wiki}};
  EnvReport report;
  report.site.id = "lab";
  report.site.name = "The lab";
  report.site.origin = "embedded";
  report.site.found_by = "SLURM_CLUSTER_NAME=lab";
  report.facts.nodes = 2;
  report.facts.gpus_per_node = 4;
  report.facts.fabric = "slingshot-11";
  report.facts.interfaces = {"hsn0", "hsn1"};
  report.facts.plugin_found = true;
  report.facts.nccl = "2.27.3";
  report.variables = shown_variables(plan);
  report.unset = plan.unset;
  return report;
}

TEST(EnvReport, MatchesTheGoldenFiles) {
  const std::string folder = HVD_GOLDEN_DIR "/";
  expect_golden(folder + "env-plain.golden", env_text(report()));
  expect_golden(folder + "env-explain.golden", env_explained(report()));
  expect_golden(folder + "env-export.golden", env_export(report()));
  expect_golden(folder + "env-json.golden", env_json(report()));
}

TEST(EnvReport, ShowsNoSecretInAnyForm) {
  for (const std::string& text :
       {env_text(report()), env_explained(report()), env_export(report()), env_json(report())}) {
    EXPECT_THAT(text, Not(HasSubstr("abc")));
    EXPECT_THAT(text, Not(HasSubstr("def\"")));
  }
}

TEST(EnvReport, SaysWhatTheSettingsOfTheUserMean) {
  Environment environment;
  environment.set("HVD_LINK_TIMEOUT_SECONDS", "7");
  environment.set("HVD_UNKNOWN", "1");
  EnvReport with_settings = report();
  with_settings.given = given_settings(environment);
  ASSERT_EQ(with_settings.given.size(), 1U);
  const std::string text = env_explained(with_settings);
  EXPECT_THAT(text, HasSubstr("\nset by you:\n\nHVD_LINK_TIMEOUT_SECONDS=7\n  default 3\n  meaning "
                              "a host that does not answer"));
  EXPECT_THAT(text, Not(HasSubstr("](")));
}

TEST(EnvReport, LeavesOutWhatTellsARankWhoItIs) {
  EXPECT_THAT(env_text(report()), Not(HasSubstr("HVD_")));
  EXPECT_THAT(env_text(report()), HasSubstr("OMP_NUM_THREADS=8\n"));
}

SiteConfig site_named(const char* id) { return find_site(id, Environment()).value(); }

TEST(Elsewhere, TakesTheSitesFirstPartitionAndNothingOfThisMachine) {
  const SiteFacts facts = facts_of_site(site_named("alps-daint"));
  EXPECT_EQ(facts.partition, "normal");
  EXPECT_EQ(facts.fabric, "slingshot-11");
  EXPECT_EQ(facts.gpus_per_node, 4);
  EXPECT_EQ(facts.gpu_vendor, "nvidia");
  EXPECT_EQ(facts.container, false);
  EXPECT_FALSE(facts.nccl || facts.plugin_found || facts.mixed_ports);
  EXPECT_EQ(facts_of_site(site_named("lumi")).gpu_vendor, "amd");
  EXPECT_FALSE(facts_of_site(site_named("generic")).fabric);
  EXPECT_EQ(facts_of_site(site_named("lumi"), 2).gpus_per_node, 2);
  EXPECT_FALSE(facts_of_site(site_named("lumi"), 0).gpu_vendor) << "as hvdrun script takes it";
}

TEST(Elsewhere, LeavesOutTheCoresOfThisMachineAndSaysSo) {
  EnvReport other = report();
  other.is_elsewhere = true;
  other.facts.partition = "gpu";
  leave_out_counted(other);
  EXPECT_THAT(env_text(other), Not(HasSubstr("OMP_NUM_THREADS")));
  EXPECT_THAT(env_explained(other), HasSubstr("machine, not this one: 2 nodes"));
  EXPECT_THAT(env_explained(other), HasSubstr("why not cores of a rank"));
  EXPECT_THAT(elsewhere_text(other), HasSubstr("site lab is not this machine: the variables are "
                                               "those of a node of its partition gpu, fabric "
                                               "slingshot-11;"));
  EnvReport typed = report();
  typed.variables = {{"OMP_NUM_THREADS", "8", "user environment", ""}};
  leave_out_counted(typed);
  EXPECT_EQ(env_text(typed), "OMP_NUM_THREADS=8\n");
}

TEST(SiteValues, CountEachValueByTheMarkOfItsSource) {
  const std::vector<SiteEntry> entries = site_index(Environment()).value();
  const auto document = load_document(entries, *find_entry(entries, "piz-daint"));
  const std::vector<SiteValue> values = site_values(document.value());
  const auto find = [&](const std::string& place) {
    for (const SiteValue& value : values) {
      if (value.place == place) return value.value + " | " + value.provenance.mark;
    }
    return std::string("absent");
  };
  EXPECT_EQ(find("partitions/gpu/gpus/count"), "1 | documented");
  EXPECT_EQ(find("env/NCCL_NET"), "Socket, when nodes>1 | documented");
  EXPECT_EQ(find("name"), "absent");
  EXPECT_EQ(find("notes"), "absent");
  const MarkCounts counts = count_marks(values);
  EXPECT_EQ(static_cast<std::size_t>(counts.documented + counts.seen + counts.assumed),
            values.size());
}

TEST(SiteValues, ASiteIsShownWithNumberedSources) {
  SiteLine line;
  line.entry.id = "lab";
  line.entry.name = "The lab";
  line.entry.origin = "embedded";
  const Provenance wiki{"wiki", "2026", "documented"};
  const Provenance guess{"general knowledge", "2026", "assumed"};
  const std::vector<SiteValue> values{{"time", "01:00:00", wiki}, {"hint", "x", guess}};
  line.counts = count_marks(values);
  EXPECT_EQ(site_text(line, values),
            "lab: The lab\n"
            "values: 1 documented, 0 seen, 1 assumed\n\n"
            "[1] wiki, 2026, documented\n"
            "[2] general knowledge, 2026, assumed\n\n"
            "  [1] time = 01:00:00\n"
            "  [2] hint = x  (assumed: verify)\n");
}

}  // namespace
}  // namespace hvd
