// SPDX-License-Identifier: Apache-2.0
#include "launcher/node/nvml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace hvd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

NodeTopology three_gpus() {
  NodeTopology topology;
  topology.gpus.resize(3);
  topology.gpus[0].bus_id = "0000:07:00.0";
  topology.gpus[1].bus_id = "0000:47:00.0";
  topology.gpus[1].uuid = "GPU-known";
  topology.gpus[2].bus_id = "0000:c1:00.0";  // not NVML's
  return topology;
}

TEST(Nvml, AddsWhatIsNotKnown) {
  NodeTopology topology = three_gpus();
  add_nvml_names(HVD_FAKE_NVML, topology);
  EXPECT_EQ(topology.gpus[0].uuid, "GPU-aa");
  EXPECT_EQ(topology.gpus[0].model, "Fake GPU-aa");
  EXPECT_THAT(topology.gpus[0].mig_uuids, ElementsAre("MIG-00", "MIG-02"));
  EXPECT_EQ(topology.gpus[1].uuid, "GPU-known");
  EXPECT_THAT(topology.gpus[1].mig_uuids, IsEmpty());
  EXPECT_EQ(topology.gpus[2].uuid, "");
}

TEST(Nvml, KnowsWhichGpusReachEachOther) {
  const auto all = ask_peer_access(HVD_FAKE_NVML, three_gpus());
  ASSERT_TRUE(all);
  EXPECT_EQ(all->gpus, 2) << "of two it knows";
  EXPECT_TRUE(all->missing.empty());
  ::setenv("HVD_FAKE_NVML_PEERS", "2", 1);  // NOLINT(concurrency-mt-unsafe): one thread
  const auto none = ask_peer_access(HVD_FAKE_NVML, three_gpus());
  ::unsetenv("HVD_FAKE_NVML_PEERS");  // NOLINT(concurrency-mt-unsafe): one thread
  ASSERT_TRUE(none);
  ASSERT_EQ(none->missing.size(), 1U);
  EXPECT_EQ(none->missing[0].one, "0000:07:00.0");
  EXPECT_EQ(none->missing[0].other, "0000:47:00.0");
  EXPECT_EQ(none->missing[0].reason, "the GPUs do not support it");
}

TEST(Nvml, SaysNothingOfReachWhereThereIsNothingToAsk) {
  NodeTopology topology = three_gpus();
  EXPECT_FALSE(ask_peer_access("libhvd-no-such-nvml.so", topology));
  topology.gpus.erase(topology.gpus.begin());
  EXPECT_FALSE(ask_peer_access(HVD_FAKE_NVML, topology)) << "it knows one of them";
}

TEST(Nvml, SaysNothingOfReachWhereAPairHasNoAnswer) {
  ::setenv("HVD_FAKE_NVML_PEERS", "error", 1);  // NOLINT(concurrency-mt-unsafe): one thread
  const auto peers = ask_peer_access(HVD_FAKE_NVML, three_gpus());
  ::unsetenv("HVD_FAKE_NVML_PEERS");  // NOLINT(concurrency-mt-unsafe): one thread
  EXPECT_FALSE(peers);
}

TEST(Nvml, ChangesNothingWhereItIsMissingOrRefuses) {
  NodeTopology topology = three_gpus();
  add_nvml_names("libhvd-no-such-nvml.so", topology);
  ::setenv("HVD_FAKE_NVML_BROKEN", "1", 1);  // NOLINT(concurrency-mt-unsafe): one thread
  add_nvml_names(HVD_FAKE_NVML, topology);
  ::unsetenv("HVD_FAKE_NVML_BROKEN");  // NOLINT(concurrency-mt-unsafe): one thread
  EXPECT_EQ(topology.gpus[0].uuid, "");
  EXPECT_THAT(topology.gpus[0].mig_uuids, IsEmpty());
}

}  // namespace
}  // namespace hvd
