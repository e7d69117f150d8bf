// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "topology/cpu_set.h"
#include "topology/gpu_list.h"
#include "topology/hostlist.h"
#include "topology/task_map.h"

namespace hvd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Strings = std::vector<std::string>;

TEST(Hostlist, ExpandsInOrder) {
  EXPECT_THAT(expand_hostlist("jz[1-3,7],p2n[01-02]").value(),
              ElementsAre("jz1", "jz2", "jz3", "jz7", "p2n01", "p2n02"));
  EXPECT_THAT(expand_hostlist("login").value(), ElementsAre("login"));
  EXPECT_THAT(expand_hostlist("b,a").value(), ElementsAre("b", "a"));
  EXPECT_THAT(expand_hostlist("r[0-1]n[2-3]-ib.x").value(),
              ElementsAre("r0n2-ib.x", "r0n3-ib.x", "r1n2-ib.x", "r1n3-ib.x"));
  EXPECT_THAT(expand_hostlist("n[9-11]").value(), ElementsAre("n9", "n10", "n11"));
  EXPECT_THAT(expand_hostlist("n[098-101]").value(), ElementsAre("n098", "n099", "n100", "n101"));
}

TEST(Hostlist, RefusesWhatIsNone) {
  for (const std::string text :
       {"", ",", "a,", ",a", "a[", "a[1", "a[1-", "a[1-]", "a[]", "a[2-1]", "a[1,]", "a]", "a b",
        "a[1-x]", "a[[1-2]]", "a[1234567890123456789]", "a\n"}) {
    const auto result = expand_hostlist(text);
    ASSERT_FALSE(result.is_ok()) << text;
    EXPECT_EQ(result.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(result.status().message(), HasSubstr("is not a hostlist"));
  }
}

TEST(Hostlist, ReadsNothingBehindItsText) {
  const std::string_view whole = "a[1,2]";
  EXPECT_THAT(expand_hostlist(whole.substr(0, 3)).status().message(),
              HasSubstr("bracket without end at character 2"));
}

TEST(Hostlist, DoesNotExplode) {
  EXPECT_EQ(expand_hostlist("a[1-65536]").value().size(), kMaxHosts);
  for (const std::string text : {"a[1-65537]", "a[1-999999999999999999]", "a[1-65536],b",
                                 "a[1-300][1-300]", "a[1-9][1-9][1-9][1-9][1-9][1-9][1-9]"}) {
    const auto result = expand_hostlist(text);
    ASSERT_FALSE(result.is_ok()) << text;
    EXPECT_THAT(result.status().message(), HasSubstr("more than 65536 hosts"));
  }
  EXPECT_FALSE(expand_hostlist("a[1-3]", 2).is_ok());
}

TEST(Hostlist, CompressesToWhatExpandsBack) {
  const std::vector<std::pair<Strings, std::string>> cases{
      {{"jz1", "jz2", "jz4"}, "jz[1-2,4]"},
      {{"jz1"}, "jz1"},
      {{"a", "b"}, "a,b"},
      {{"n9", "n10", "n11"}, "n[9-11]"},
      {{"n09", "n10", "n011"}, "n[09-10,011]"},
      {{"n2", "n1"}, "n[2,1]"},
      {{"r0n1-ib", "r0n2-ib", "r1n1-ib"}, "r0n[1-2]-ib,r1n1-ib"},
      {{}, ""},
  };
  for (const auto& [hosts, text] : cases) {
    EXPECT_EQ(compress_hostlist(hosts), text);
    if (hosts.empty()) continue;
    EXPECT_EQ(expand_hostlist(text).value(), hosts);
  }
}

TEST(TaskMap, ReadsRepeats) {
  EXPECT_THAT(parse_task_map("4(x2),2").value(), ElementsAre(4, 4, 2));
  EXPECT_THAT(parse_task_map("1").value(), ElementsAre(1));
  EXPECT_THAT(parse_task_map("10,2(x3)").value(), ElementsAre(10, 2, 2, 2));
  EXPECT_EQ(format_task_map({10, 2, 2, 2}), "10,2(x3)");
  EXPECT_EQ(parse_task_map("1(x65536)").value().size(), 65536U);
}

TEST(TaskMap, RefusesWhatIsNone) {
  for (const std::string text : {"", "0", "-1", "4(x2", "4(2)", "4(x0)", "4,", ",4", "x", "4 ",
                                 "1(x65537)", "1(x65536),1", "99999999999"}) {
    const auto result = parse_task_map(text);
    ASSERT_FALSE(result.is_ok()) << text;
    EXPECT_THAT(result.status().message(), HasSubstr("is not a task map"));
  }
}

TEST(CpuSet, ReadsAndWritesTheKernelsForm) {
  EXPECT_THAT(parse_cpu_set("0-3,8").value(), ElementsAre(0, 1, 2, 3, 8));
  EXPECT_EQ(format_cpu_set({0, 1, 2, 3, 8}), "0-3,8");
  EXPECT_EQ(format_cpu_set({5}), "5");
  EXPECT_TRUE(parse_cpu_set("").value().empty());
  for (const std::string text : {"a", "1-", "3-1", "1,", "-1", "0-99999999"}) {
    EXPECT_FALSE(parse_cpu_set(text).is_ok()) << text;
  }
}

/// Random bytes out of the parsers' own alphabets: no crash, and what is read is written back.
TEST(Parsers, SurviveRandomBytes) {
  std::mt19937 random(7);
  const std::string alphabet = "a1209[]-,(x).\n-1MIGPU";
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    const std::size_t length = random() % 24;
    for (std::size_t k = 0; k < length; ++k) text += alphabet[random() % alphabet.size()];
    if (const auto hosts = expand_hostlist(text); hosts.is_ok()) {
      ASSERT_EQ(expand_hostlist(compress_hostlist(hosts.value())).value(), hosts.value()) << text;
    }
    if (const auto tasks = parse_task_map(text); tasks.is_ok()) {
      ASSERT_EQ(parse_task_map(format_task_map(tasks.value())).value(), tasks.value()) << text;
    }
    if (const auto cpus = parse_cpu_set(text); cpus.is_ok()) {
      ASSERT_EQ(parse_cpu_set(format_cpu_set(cpus.value())).value(), cpus.value()) << text;
    }
    (void)parse_gpu_list(text).is_ok();
  }
}

Environment environment(std::map<std::string, std::string, std::less<>> variables) {
  return Environment(std::move(variables));
}

Result<std::optional<int>> choose(const Environment& environment, int on_node, int local_rank,
                                  int local_size) {
  HVD_TRY_ASSIGN(const VisibleGpus gpus, visible_gpus(environment, on_node));
  return choose_gpu(gpus, environment.get("HVD_SHARE_GPU") == "1", local_rank, local_size);
}

TEST(GpuList, TakesTheEntryNotTheNumber) {
  const Environment shared = environment({{"CUDA_VISIBLE_DEVICES", "2,5"}});
  EXPECT_EQ(choose(shared, 8, 1, 2).value(), 1);
  EXPECT_EQ(visible_gpus(shared, 8).value().entries[1].text, "5");
  EXPECT_EQ(choose(environment({}), 4, 3, 4).value(), 3);
  EXPECT_EQ(
      choose(environment({{"CUDA_VISIBLE_DEVICES", "GPU-8932f937-d72c,MIG-05f6/1/0"}}), 0, 1, 2)
          .value(),
      1);
}

TEST(GpuList, NoGpuIsFine) {
  for (const std::string list : {"", "-1", "NoDevFiles", "none"}) {
    EXPECT_EQ(choose(environment({{"CUDA_VISIBLE_DEVICES", list}}), 4, 0, 2).value(), std::nullopt);
  }
  EXPECT_EQ(choose(environment({}), 0, 0, 2).value(), std::nullopt);
}

TEST(GpuList, APrivateListGivesItsFirstEntry) {
  const Environment task = environment(
      {{"CUDA_VISIBLE_DEVICES", "3"}, {"SLURM_STEP_GPUS", "3"}, {"SLURM_GPUS_ON_NODE", "4"}});
  EXPECT_EQ(choose(task, 4, 3, 4).value(), 0);
}

TEST(GpuList, RefusesMoreRanksThanGpusWithTheRemedy) {
  const Environment step = environment({{"CUDA_VISIBLE_DEVICES", "0,1,2"},
                                        {"SLURM_STEP_GPUS", "0,1,2"},
                                        {"SLURM_GPUS_ON_NODE", "3"}});
  const auto result = choose(step, 4, 3, 4);
  ASSERT_FALSE(result.is_ok());
  EXPECT_THAT(result.status().message(),
              HasSubstr("4 ranks on this node, but only 3 GPUs in CUDA_VISIBLE_DEVICES"));
  EXPECT_THAT(result.status().message(), HasSubstr("--gpus-per-node=4"));
  Environment sharing = step;
  sharing.set("HVD_SHARE_GPU", "1");
  EXPECT_EQ(choose(sharing, 4, 3, 4).value(), 0);
}

TEST(GpuList, AnIndexHasSixDigitsAtMost) {
  const Environment six = environment({{"CUDA_VISIBLE_DEVICES", "999999"}});
  EXPECT_EQ(visible_gpus(six, 0).value().entries.front().text, "999999");
}

TEST(GpuList, RefusesWhatIsNone) {
  for (const std::string list : {"x", "0,,1", "0,0", "GPU-", "-2", "0;1", "1234567"}) {
    const auto result = visible_gpus(environment({{"CUDA_VISIBLE_DEVICES", list}}), 0);
    ASSERT_FALSE(result.is_ok()) << list;
    EXPECT_THAT(result.status().message(), HasSubstr("CUDA_VISIBLE_DEVICES"));
  }
}

}  // namespace
}  // namespace hvd
