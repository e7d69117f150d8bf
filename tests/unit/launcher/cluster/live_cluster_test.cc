// SPDX-License-Identifier: Apache-2.0
#include "launcher/cluster/live_cluster.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "launcher/cluster/gres_count.h"
#include "launcher/cluster/live_source.h"
#include "launcher/cluster/qos_text.h"
#include "launcher/site/slurm_conf.h"

namespace hvd {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

/// What `scontrol --oneliner show` of Slurm 22.05 printed on a cluster of six nodes.
std::string recorded() {
  std::ifstream file(HVD_LIVE_DIR "/slurm-22.05-jean-zay");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(LiveCluster, ReadsWhatScontrolPrints) {
  const LiveCluster live = parse_live_cluster(recorded(), "");
  EXPECT_EQ(live.name, "lab");
  EXPECT_EQ(live.version, "22.05.8");
  EXPECT_FALSE(live.has_accounts);
  ASSERT_EQ(live.partitions.size(), 2U);
  EXPECT_EQ(live.default_partition()->name, "gpu_p13");
  const LivePartition& partition = live.partitions.front();
  EXPECT_EQ(partition.state, "UP");
  EXPECT_EQ(partition.max_time, hours(20));
  EXPECT_FALSE(partition.default_time.has_value());  // NONE
  EXPECT_FALSE(partition.max_nodes.has_value());     // UNLIMITED
  EXPECT_TRUE(partition.allowed_qos.empty());        // ALL
  EXPECT_EQ(partition.qos, "");                      // N/A
  EXPECT_FALSE(partition.is_exclusive);
  EXPECT_EQ(partition.nodes, 4);
}

TEST(LiveCluster, CountsNodesThatAreAlike) {
  const LiveCluster live = parse_live_cluster(recorded(), "");
  ASSERT_EQ(live.partitions.back().kinds.size(), 1U);
  const LiveNodes& nodes = live.partitions.back().kinds.front();
  EXPECT_EQ(nodes.count, 2);
  EXPECT_EQ(nodes.gpus, 8);
  EXPECT_EQ(nodes.gpu_type, "v100");
  EXPECT_EQ(nodes.cores, 24);
  EXPECT_EQ(nodes.threads_per_core, 2);
  EXPECT_EQ(nodes.memory_mb, 8000);
}

TEST(LiveCluster, PutsTheMostFrequentKindOfNodesFirst) {
  const LiveCluster live = parse_live_cluster(
      "NodeName=a Sockets=1 CoresPerSocket=4 CPUTot=4 Partitions=x\n"
      "NodeName=b Sockets=1 CoresPerSocket=8 CPUTot=16 ThreadsPerCore=2 Partitions=x,y\n"
      "NodeName=c Sockets=1 CoresPerSocket=8 CPUTot=16 ThreadsPerCore=2 Partitions=x,nosuch\n"
      "PartitionName=x State=UP\nPartitionName=y State=UP\n",
      "");
  ASSERT_EQ(live.find_partition("x")->kinds.size(), 2U);
  EXPECT_EQ(live.find_partition("x")->kinds.front().cores, 8);
  EXPECT_EQ(live.find_partition("x")->kinds.front().count, 2);
  EXPECT_EQ(live.find_partition("y")->kinds.front().count, 1);
}

TEST(LiveCluster, KnowsTheTimeLeftOfAJob) {
  const LiveCluster live = parse_live_cluster(recorded(), "");
  ASSERT_EQ(live.jobs.size(), 1U);
  EXPECT_EQ(live.jobs.front().time_left, hours(20) - seconds(2));
  EXPECT_EQ(describe_job(live.jobs.front(), ""),
            "job 1 is running on jz1, until 2026-11-26T18:51:10 at the latest");
  const auto unlimited = parse_job_status(
      "JobId=2 JobState=RUNNING RunTime=00:10:00 TimeLimit=UNLIMITED "
      "EndTime=2027-11-25T00:00:00\n");
  EXPECT_FALSE(unlimited.front().time_left.has_value());
  EXPECT_EQ(describe_job(unlimited.front(), ""), "job 2 is running");
}

TEST(LiveCluster, ReadsQosOfSacctmgr) {
  const std::vector<LiveQos> qos = parse_qos(
      "normal||||\nqos_gpu-dev|02:00:00|gres/gpu=32,node=8|10|DenyOnLimit,OverPartQOS\n"
      "long|4-04:00:00|cpu=1|x|PartitionTimeLimit,PartitionMaxNodes\n"
      "two|columns\n|1|2|3|4\n");
  ASSERT_EQ(qos.size(), 3U);
  EXPECT_EQ(qos[0].name, "normal");
  EXPECT_FALSE(qos[0].max_time || qos[0].max_nodes || qos[0].max_gpus || qos[0].max_jobs);
  EXPECT_EQ(qos[1].max_time, hours(2));
  EXPECT_EQ(qos[1].max_gpus, 32);
  EXPECT_EQ(qos[1].max_nodes, 8);
  EXPECT_EQ(qos[1].max_jobs, 10);
  EXPECT_EQ(qos[2].max_time, hours(100));
  EXPECT_FALSE(qos[2].max_gpus || qos[2].max_jobs);
  EXPECT_TRUE(qos[1].goes_first && !qos[1].passes_max_time && !qos[1].passes_max_nodes);
  EXPECT_TRUE(!qos[2].goes_first && qos[2].passes_max_time && qos[2].passes_max_nodes);
  EXPECT_FALSE(qos[2].passes_min_nodes);
}

TEST(LiveCluster, LeavesOutWhatItCannotRead) {
  const LiveCluster live = parse_live_cluster(
      "PartitionName=\nNodeName=\nno such line\nClusterName\nClusterNames = x\n"
      "PartitionName=x MaxNodes=99999999999999999999 MaxTime=9:9:9:9 State=UP\n",
      "junk");
  EXPECT_EQ(live.name, "");
  ASSERT_EQ(live.partitions.size(), 1U);
  EXPECT_FALSE(live.partitions[0].max_nodes || live.partitions[0].max_time);
  EXPECT_TRUE(live.qos.empty());
  EXPECT_TRUE(live.jobs.empty());
  EXPECT_EQ(live.default_partition(), nullptr);
}

struct GresCase {
  std::string gres;
  int count;
  std::string type;
};

TEST(LiveCluster, CountsGpusOfAGresField) {
  const std::vector<GresCase> cases{
      {"", 0, ""},
      {"(null)", 0, ""},
      {"gpu", 1, ""},
      {"gpu:4", 4, ""},
      {"gpu:a100:4(S:0,2),shard:8", 4, "a100"},
      {"gpu:a100:no_consume:2", 2, "a100"},
      {"gpu:a100:2,gpu:h100:2", 4, ""},
      {"gpus:4,craynetwork:4", 0, ""},
      {"gpu:99999999", 0, ""},
  };
  for (const GresCase& c : cases) {
    EXPECT_EQ(gpus_of_gres(c.gres).count, c.count) << c.gres;
    EXPECT_EQ(gpus_of_gres(c.gres).type, c.type) << c.gres;
  }
}

TEST(LiveSource, AsksTheLibraryOnlyWhereThereIsASlurmConf) {
  SlurmFacts facts{.conf = "/etc/slurm/slurm.conf",
                   .has_scontrol = true,
                   .library = "libslurm.so.38",
                   .library_problem = ""};
  EXPECT_EQ(choose_live_source(facts).way, LiveWay::kLibrary);
  facts.conf.clear();
  EXPECT_EQ(choose_live_source(facts).way, LiveWay::kCommands);
  EXPECT_THAT(choose_live_source(facts).reason, testing::HasSubstr("no slurm.conf"));
  facts.has_scontrol = false;
  EXPECT_EQ(choose_live_source(facts).way, LiveWay::kNone);
}

TEST(LiveSource, OpensNoLibraryWithoutASlurmConf) {
  Environment environment;
  environment.set("SLURM_CONF", "/no/such.conf");
  const SlurmFacts facts = read_slurm_facts(environment);
  if (!facts.conf.empty()) GTEST_SKIP() << facts.conf << " is here";
  EXPECT_EQ(facts.library_problem, "");
  if (facts.library.empty()) return;
  EXPECT_EQ(::dlopen(facts.library.c_str(), RTLD_LAZY | RTLD_NOLOAD), nullptr);
}

TEST(LiveSource, AsksTheCommandsWhereTheLibraryIsAnother) {
  SlurmFacts facts{.conf = "/etc/slurm/slurm.conf",
                   .has_scontrol = true,
                   .library = "libslurm.so.38",
                   .library_problem = "libslurm.so.38 is not here"};
  EXPECT_EQ(choose_live_source(facts).way, LiveWay::kCommands);
  EXPECT_EQ(choose_live_source(facts).reason, "scontrol (libslurm.so.38 is not here)");
  facts.has_scontrol = false;
  EXPECT_EQ(choose_live_source(facts).way, LiveWay::kNone);
  EXPECT_THAT(choose_live_source(facts).reason, testing::HasSubstr("/etc/slurm/slurm.conf"));
}

TEST(SlurmConf, NamesTheCluster) {
  EXPECT_EQ(cluster_name_of("# ClusterName=no\nclustername = lab # ours\nClusterName=b"), "lab");
  EXPECT_EQ(cluster_name_of("SlurmctldHost=login\r\nClusterName=lab\r\n"), "lab");
  EXPECT_EQ(cluster_name_of("ClusterNames=x\n=\nClusterName"), "");
}

}  // namespace
}  // namespace hvd
