// SPDX-License-Identifier: Apache-2.0
#include "launcher/node/gpu_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace hvd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string, std::less<>>;

NodeTopology four_gpus() {
  NodeTopology topology;
  for (const char* uuid : {"GPU-aa11", "GPU-ab22", "GPU-b333", "GPU-c444"}) {
    NodeGpu gpu;
    gpu.index = static_cast<int>(topology.gpus.size());
    gpu.bus_id = format_text("0000:0{}:00.0", gpu.index);
    gpu.uuid = uuid;
    topology.gpus.push_back(gpu);
  }
  topology.gpus[3].mig_uuids = {"MIG-1234", "MIG-5678"};
  return topology;
}

Result<std::vector<int>> locate(const NodeTopology& topology, Variables variables) {
  const Environment environment(std::move(variables));
  HVD_TRY_ASSIGN(const VisibleGpus visible, visible_gpus(environment, 0));
  return locate_gpus(topology, visible, environment);
}

std::string failure(Variables variables) {
  return locate(four_gpus(), std::move(variables)).status().message();
}

TEST(GpuPlaces, FindsEntriesOfAllKinds) {
  struct Case {
    const char* list;
    std::vector<int> places;
  };
  const std::vector<Case> cases{
      {"2,0", {2, 0}},
      {"GPU-b333,GPU-aa", {2, 0}},
      {"1,GPU-c", {1, 3}},
      {"MIG-1,MIG-5678", {3, 3}},
      {"MIG-9", {-1}},
      {"MIG-GPU-ab22/1/0", {1}},
      {"", {}},
  };
  for (const Case& each : cases) {
    const auto places = locate(four_gpus(), {{"CUDA_VISIBLE_DEVICES", each.list}});
    ASSERT_TRUE(places.is_ok()) << places.status().message();
    EXPECT_EQ(places.value(), each.places) << each.list;
  }
}

TEST(GpuPlaces, NamesTheEntryAndWhatExists) {
  EXPECT_EQ(failure({{"CUDA_VISIBLE_DEVICES", "0,7"}}),
            "CUDA_VISIBLE_DEVICES: no GPU of this node is '7'; there are 0 (GPU-aa11), 1 "
            "(GPU-ab22), 2 (GPU-b333), 3 (GPU-c444): correct the list, or unset it");
  EXPECT_THAT(failure({{"CUDA_VISIBLE_DEVICES", "GPU-d"}}), HasSubstr("no GPU of this node"));
  EXPECT_THAT(failure({{"CUDA_VISIBLE_DEVICES", "GPU-a"}}), HasSubstr("beginning of 2 UUIDs"));
  EXPECT_THAT(failure({{"CUDA_VISIBLE_DEVICES", "0,GPU-aa11"}}), HasSubstr("are the same GPU 0"));
  EXPECT_THAT(failure({{"CUDA_VISIBLE_DEVICES", "0.1"}}), HasSubstr("neither an index"));
  EXPECT_THAT(failure({{"ZE_AFFINITY_MASK", "0.x"}}), HasSubstr("nor a tile"));
  EXPECT_THAT(failure({{"ZE_AFFINITY_MASK", "9.0"}}), HasSubstr("no GPU of this node"));
}

TEST(GpuPlaces, CountsWithinTheJobWhereSlurmClosedTheRest) {
  const auto places = [](const char* list, const char* job) {
    return locate(four_gpus(), {{"CUDA_VISIBLE_DEVICES", list}, {"SLURM_STEP_GPUS", job}}).value();
  };
  EXPECT_THAT(places("0,1", "2,3"), ElementsAre(2, 3));
  EXPECT_THAT(places("1", "2,3"), ElementsAre(3));
  EXPECT_THAT(places("2,3", "2,3"), ElementsAre(2, 3));  // all device files open
  EXPECT_THAT(places("0,1,2,3", "0-3"), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(places("0,1", "8,9"), ElementsAre(0, 1));  // numbers of something else
  EXPECT_THAT(locate(four_gpus(), {{"ROCR_VISIBLE_DEVICES", "0"}, {"SLURM_JOB_GPUS", "3"}}).value(),
              ElementsAre(3));
}

TEST(GpuPlaces, ReadsTheVariablesOfAmdAndIntel) {
  EXPECT_THAT(locate(four_gpus(), {{"ROCR_VISIBLE_DEVICES", "3,1"}}).value(), ElementsAre(3, 1));
  EXPECT_THAT(
      locate(four_gpus(), {{"ROCR_VISIBLE_DEVICES", "3,1"}, {"HIP_VISIBLE_DEVICES", "1"}}).value(),
      ElementsAre(1));
  EXPECT_THAT(locate(four_gpus(), {{"ROCR_VISIBLE_DEVICES", "3,1"}, {"HIP_VISIBLE_DEVICES", "2"}})
                  .status()
                  .message(),
              HasSubstr("no GPU of this node is '2'"));
  EXPECT_THAT(locate(four_gpus(), {{"ZE_AFFINITY_MASK", "0.0,0.1,3"}}).value(),
              ElementsAre(0, 0, 3));
  EXPECT_THAT(locate(four_gpus(), {{"ZE_AFFINITY_MASK", "5"}}).value(), ElementsAre(-1));
}

TEST(GpuPlaces, KnowsNothingWhereTheMachineHidesItsDevices) {
  EXPECT_THAT(locate({}, {{"CUDA_VISIBLE_DEVICES", "0,GPU-a"}}).value(), ElementsAre(-1, -1));
  NodeTopology without_uuids = four_gpus();
  for (NodeGpu& gpu : without_uuids.gpus) gpu.uuid.clear();
  EXPECT_THAT(locate(without_uuids, {{"CUDA_VISIBLE_DEVICES", "GPU-d"}}).value(), ElementsAre(-1));
}

}  // namespace
}  // namespace hvd
