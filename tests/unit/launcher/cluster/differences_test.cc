// SPDX-License-Identifier: Apache-2.0
#include "launcher/cluster/differences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"
#include "launcher/check/check_cluster.h"
#include "launcher/cluster/objections.h"
#include "launcher/env/site_draft.h"
#include "launcher/job/live_warnings.h"
#include "launcher/lint/live_rules.h"
#include "launcher/site/site_file.h"

namespace hvd {
namespace {

using std::chrono::hours;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::string_view kSlurm =
    "ClusterName             = small\nSLURM_VERSION           = 23.11.4\n"
    "PartitionName=gpu AllowQos=normal,long Default=YES QoS=N/A DefaultTime=01:00:00 MaxNodes=8 "
    "MaxTime=10:00:00 MinNodes=2 State=UP TotalNodes=9\n"
    "PartitionName=old AllowQos=ALL DenyQos=long Default=NO MaxTime=UNLIMITED State=DRAIN "
    "TotalNodes=1\n"
    "NodeName=n1 CoresPerSocket=16 CPUTot=64 Gres=gpu:a100:4 RealMemory=512000 Sockets=2 "
    "ThreadsPerCore=2 Partitions=gpu,old\n";
constexpr std::string_view kQos = "normal||||\nlong|4-00:00:00|node=4||PartitionTimeLimit\n";

LiveCluster small_cluster() { return parse_live_cluster(kSlurm, kQos); }

SiteConfig small_site() {
  SitePartition partition;
  partition.name = "gpu";
  partition.select = PartitionSelect::kPartition;
  partition.gpus_per_node = 4;
  partition.cores_per_task = 8;
  partition.cores_per_node = 32;
  partition.memory_gb = 500;
  partition.max_time = "10:00:00";
  partition.max_nodes = 8;
  partition.default_time = "60";
  partition.provenance = {"wiki", "2026-01", "documented"};
  SiteConfig site;
  site.id = "mine";
  site.detect.cluster_names = {"small"};
  site.partitions = {partition};
  return site;
}

std::vector<std::string> texts_of(const SiteConfig& site) {
  std::vector<std::string> texts;
  for (SiteDifference& one : site_differences(site, small_cluster())) {
    texts.push_back(std::move(one.text));
  }
  return texts;
}

TEST(SiteDifferences, AreNoneWhereBothSayTheSame) {
  EXPECT_THAT(texts_of(small_site()), IsEmpty());
}

TEST(SiteDifferences, ShowBothValuesAndTheSource) {
  SiteConfig site = small_site();
  SitePartition& partition = site.partitions.front();
  partition.max_time = "20:00:00";
  partition.max_nodes = 16;
  partition.gpus_per_node = 8;
  partition.cores_per_node = 80;
  partition.memory_gb = 1000;
  EXPECT_THAT(
      texts_of(site),
      ElementsAre(
          "partition gpu: max_time is 20:00:00 in the site file (wiki, 2026-01, documented), "
          "10:00:00 on the cluster",
          HasSubstr("max_nodes is 16"), HasSubstr("gpus/count is 8"),
          HasSubstr("cores_per_node is 80"), HasSubstr("memory_gb is 1000")));
}

TEST(SiteDifferences, NameWhatIsNotOnTheCluster) {
  SiteConfig site = small_site();
  site.partitions.front().qos = {{.name = "long", .max_time = "100:00:00", .max_gpus = 4},
                                 {.name = "gone", .max_time = "", .max_gpus = std::nullopt}};
  site.partitions.push_back(site.partitions.front());
  site.partitions.back().name = "away";
  EXPECT_THAT(texts_of(site),
              ElementsAre(HasSubstr("QoS long of partition gpu: max_time is 100:00:00"),
                          HasSubstr("QoS gone of partition gpu is in the site file, not"),
                          HasSubstr("partition away is in the site file (wiki, 2026-01, "
                                    "documented), not on the cluster")));
}

TEST(SiteDifferences, AreOfOneClusterAlone) {
  SiteConfig site = small_site();
  EXPECT_TRUE(is_of_cluster(site, small_cluster()));
  site.detect.cluster_names = {"large"};
  EXPECT_FALSE(is_of_cluster(site, small_cluster()));
  site.detect.cluster_names.clear();
  EXPECT_TRUE(is_of_cluster(site, small_cluster()));
}

std::vector<std::string> objections_to(const LiveRequest& request) {
  std::vector<std::string> texts;
  for (LiveObjection& one : live_objections(request, small_cluster())) {
    texts.push_back(one.option + ": " + one.text);
  }
  return texts;
}

TEST(LiveObjections, AreNoneToAJobThatFits) {
  EXPECT_THAT(objections_to({"", "", hours(10), 8}), IsEmpty());
  EXPECT_THAT(objections_to({"gpu", "long", hours(96), 4}), IsEmpty());  // beyond its partition
  EXPECT_THAT(objections_to({"old,gpu", "", hours(10), 8}), IsEmpty());  // one is enough
}

TEST(LiveObjections, SayWhatIsInTheWay) {
  EXPECT_THAT(
      objections_to({"", "", hours(11), 1}),
      ElementsAre("time: --time 11:00:00 is over the 10:00:00 that partition gpu has on the "
                  "cluster now",
                  HasSubstr("nodes: 1 nodes are under the 2")));
  EXPECT_THAT(objections_to({"gpu", "long", hours(97), 9}),
              ElementsAre(HasSubstr("time: --time 4-01:00:00 is over the 4-00:00:00 that QoS long"),
                          "nodes: 9 nodes are over the 4 that QoS long allows a job now"));
  EXPECT_THAT(objections_to({"gpu", "", {}, 9}), ElementsAre(HasSubstr("nodes are over the 8")));
  EXPECT_THAT(objections_to({"gpu", "nosuch", {}, {}}),
              ElementsAre("qos: the cluster has no QoS 'nosuch' now: it has normal, long"));
  EXPECT_THAT(objections_to({"old", "long", {}, 2}),
              ElementsAre("partition: partition old is DRAIN on the cluster now: jobs are refused",
                          HasSubstr("nodes: 2 nodes are more than the 1"),
                          HasSubstr("qos: partition old does not take QoS 'long'")));
  EXPECT_THAT(objections_to({"none", "", {}, {}}),
              ElementsAre("partition: the cluster has no partition 'none' now: it has gpu, old"));
}

struct LimitCase {
  std::string qos;         ///< Of the job.
  std::string_view flags;  ///< Of that QoS.
  std::string_view wall;   ///< Of that QoS.
  int hours;
  std::string_view who;  ///< Whose limit it is; empty: the job may run.
};

TEST(LiveObjections, FollowSlurmsOrderOfLimits) {
  // The partition has 10 hours, its QoS 6.
  const std::vector<LimitCase> cases{
      {"", "", "", 6, ""},
      {"", "", "", 7, "QoS part"},
      {"job", "", "08:00:00", 7, "QoS part"},
      {"job", "", "", 7, "QoS part"},
      {"job", "OverPartQOS", "", 7, "QoS part"},
      {"job", "OverPartQOS", "08:00:00", 8, ""},
      {"job", "OverPartQOS", "08:00:00", 9, "QoS job"},
      {"job", "OverPartQOS", "20:00:00", 11, "partition p"},
      {"job", "OverPartQOS,PartitionTimeLimit", "20:00:00", 11, ""},
      {"job", "PartitionTimeLimit", "20:00:00", 11, "QoS part"},
  };
  for (const LimitCase& c : cases) {
    const LiveCluster live =
        parse_live_cluster("PartitionName=p QoS=part MaxTime=10:00:00 State=UP TotalNodes=9\n",
                           format_text("part|06:00:00|||\njob|{}|||{}\n", c.wall, c.flags));
    const auto found = live_objections({"p", c.qos, hours(c.hours), {}}, live);
    ASSERT_EQ(found.size(), c.who.empty() ? 0U : 1U) << c.flags << " " << c.hours;
    if (c.who.empty()) continue;
    EXPECT_THAT(found[0].text, HasSubstr(std::string(c.who))) << c.flags << " " << c.hours;
  }
  const LiveCluster open = parse_live_cluster(
      "PartitionName=p QoS=N/A MaxTime=10:00:00 State=UP TotalNodes=9\n", "job||||\n");
  EXPECT_EQ(live_objections({"p", "job", hours(11), {}}, open).size(), 1U);
}

TEST(SiteDifferences, AreOfWhatTheClusterLimits) {
  SiteConfig site = small_site();
  const auto texts = [&site](std::string_view limits, std::string_view qos) {
    const std::string slurm = format_text("PartitionName=gpu State=UP {}\n", limits);
    return site_differences(site, parse_live_cluster(slurm, qos));
  };
  EXPECT_THAT(texts("MaxTime=UNLIMITED QoS=N/A", ""), IsEmpty());
  EXPECT_THAT(texts("MaxTime=UNLIMITED QoS=part", "part|10:00:00|node=8||\n"), IsEmpty());
  EXPECT_THAT(texts("MaxTime=100:00:00 MaxNodes=99 QoS=part", "part|10:00:00|node=8||\n"),
              IsEmpty());
  const auto found = texts("MaxTime=UNLIMITED QoS=part", "part|09:00:00|||\n");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_THAT(found[0].text, HasSubstr("09:00:00 on the cluster"));
}

TEST(HiddenPartitions, AreKnownAndNotListed) {
  const LiveCluster live = parse_live_cluster(
      "PartitionName=p Hidden=NO State=UP TotalNodes=9\n"
      "PartitionName=secret Hidden=YES State=UP TotalNodes=9\n"
      "NodeName=n1 CoresPerSocket=16 CPUTot=32 Sockets=2 RealMemory=1 Partitions=p,secret\n",
      "");
  EXPECT_THAT(live_objections({"secret", "", {}, 2}, live), IsEmpty());
  EXPECT_THAT(live_objections({"none", "", {}, {}}, live)[0].text, testing::EndsWith("it has p"));
  EXPECT_THAT(draft_site({live, "mine", "2026"}).value(), testing::Not(HasSubstr("secret")));
}

TEST(LiveWarnings, AreThoseOfTheJobsOwnPartition) {
  SiteConfig site = small_site();
  site.partitions.push_back(site.partitions.front());
  site.partitions.back().name = "away";
  site.partitions.front().max_time = "20:00:00";
  JobPlan plan;
  plan.partition = site.partitions.front();
  plan.directives = {{"partition", "gpu"}, {"time", "20:00:00"}, {"nodes", "2"}};
  EXPECT_THAT(live_warnings(site, plan, small_cluster()),
              ElementsAre(HasSubstr("--time 20:00:00 is over the 10:00:00"),
                          HasSubstr("max_time is 20:00:00 in the site file")));
}

TEST(LiveWarnings, AreThoseOfTheJobsOwnQos) {
  SiteConfig site = small_site();
  site.partitions.front().qos = {{.name = "long", .max_time = "100:00:00", .max_gpus = 4},
                                 {.name = "gone", .max_time = "", .max_gpus = std::nullopt}};
  JobPlan plan;
  plan.partition = site.partitions.front();
  plan.directives = {{"partition", "gpu"}, {"nodes", "2"}};
  EXPECT_THAT(live_warnings(site, plan, small_cluster()), IsEmpty());
  plan.directives.push_back({"qos", "long"});
  EXPECT_THAT(live_warnings(site, plan, small_cluster()),
              ElementsAre(HasSubstr("QoS long of partition gpu: max_time is 100:00:00")));
}

TEST(LiveRules, FindInAScriptWhatTheClusterRefuses) {
  const SbatchFile file = parse_sbatch_file(
      "#!/bin/bash\n#SBATCH --partition=gpu\n#SBATCH --time=12:00:00\n#SBATCH --nodes=2\nsrun x\n");
  const std::vector<Finding> findings = check_live(file, small_site(), small_cluster());
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].rule, "live-cluster");
  EXPECT_EQ(findings[0].line, 3);
  EXPECT_EQ(findings[0].source, "cluster small, now");
}

TEST(CheckCluster, ShowsTheSiteFileBesideTheCluster) {
  SiteConfig site = small_site();
  site.partitions.front().max_nodes = 9;
  const LiveAnswer answer{small_cluster(), "scontrol (why)", {"QoS: no answer"}};
  const CheckedGroup group = describe_cluster(site, answer);
  ASSERT_EQ(group.parts.size(), 5U);
  EXPECT_EQ(group.parts[0].reason, "scontrol (why)");
  EXPECT_EQ(group.parts[1].reason, "small, Slurm 23.11.4: 2 partitions, default gpu, 2 QoS");
  EXPECT_EQ(group.parts[2].reason, "QoS: no answer");
  EXPECT_FALSE(group.parts[3].available);
  EXPECT_THAT(group.parts[3].reason, HasSubstr("max_nodes is 9 in the site file"));
  EXPECT_EQ(group.parts[4].reason, "mine leaves out old");
}

TEST(SiteDraft, IsASiteFileThatAgreesWithItsCluster) {
  const auto draft = draft_site({small_cluster(), "", "2026-11-25"});
  ASSERT_TRUE(draft.is_ok()) << draft.status().message();
  const auto site = parse_site(draft.value(), "draft.json");
  ASSERT_TRUE(site.is_ok()) << site.status().message();
  EXPECT_THAT(site_differences(site.value(), small_cluster()),
              testing::SizeIs(1));  // that partition old is drained
  EXPECT_EQ(site.value().id, "small");
  EXPECT_THAT(site.value().detect.cluster_names, ElementsAre("small"));
  EXPECT_EQ(site.value().scheduler.version_min, "23.11");
  EXPECT_EQ(site.value().gres_style, GresStyle::kGres);
  EXPECT_TRUE(provenance_of(site.value(), "gres_style").is_assumed());
  ASSERT_EQ(site.value().partitions.size(), 2U);
  const SitePartition& partition = site.value().partitions.front();
  EXPECT_EQ(partition.gpu_model, "A100");
  EXPECT_EQ(partition.cores_per_task, 8);
  EXPECT_EQ(partition.max_time, "10:00:00");
  EXPECT_EQ(partition.memory_gb, 500);
  EXPECT_EQ(partition.provenance.mark, "seen");
  ASSERT_EQ(partition.qos.size(), 2U);
  EXPECT_EQ(partition.qos.back().max_time, "4-00:00:00");
}

TEST(SiteDraft, TakesAnIdAndRefusesWhatIsNone) {
  EXPECT_THAT(draft_site({small_cluster(), "other", "2026"}).value(),
              HasSubstr("\"id\": \"other\""));
  EXPECT_EQ(draft_site({small_cluster(), "No Id", "2026"}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(draft_site({LiveCluster(), "", "2026"}).status().code(), Code::kSystem);
  LiveCluster live = small_cluster();
  live.name = "My Cluster (2)";
  EXPECT_THAT(draft_site({live, "", "2026"}).value(), HasSubstr("\"id\": \"my-cluster--2-\""));
}

}  // namespace
}  // namespace hvd
