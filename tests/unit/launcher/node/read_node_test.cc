// SPDX-License-Identifier: Apache-2.0
#include "launcher/node/read_node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/node/affinity_mask.h"
#include "written_sysfs.h"

namespace hvd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr NodeParts kAll{true, true, true};

/// Two packages of two cores with SMT, whose CPUs the kernel numbers in turn.
NodeTopology interleaved() {
  NodeTopology topology;
  topology.cores = {{{0, 4}, 0, 0}, {{2, 6}, 0, 0}, {{1, 5}, 1, 1}, {{3, 7}, 1, 1}};
  topology.numas = {{0, {0, 2, 4, 6}, 1U << 30U}, {1, {1, 3, 5, 7}, 1U << 30U}};
  return topology;
}

TEST(ReadNode, PutsNeighboursBesideEachOther) {
  const WrittenSysfs sysfs;
  sysfs.cpus(interleaved());
  const NodeTopology node = read_node(sysfs.root(), {});
  ASSERT_EQ(node.cores.size(), 4U);
  EXPECT_THAT(node.cores[1].cpus, ElementsAre(2, 6));
  EXPECT_EQ(node.cores[2].package, 1);
  EXPECT_EQ(node.cores[2].numa, 1);
  ASSERT_EQ(node.numas.size(), 2U);
  EXPECT_THAT(node.numas[1].cpus, ElementsAre(1, 3, 5, 7));
  EXPECT_EQ(node.numas[1].memory_bytes, 1U << 30U);
}

TEST(ReadNode, LeavesOutMemoryWithoutCpusAndCpusThatAreOff) {
  const WrittenSysfs sysfs;
  NodeTopology grace;
  grace.cores = {{{0}, 0, 0}, {{1}, 0, 0}};
  grace.numas = {{0, {0, 1}, 1U << 20U}, {4, {}, 1U << 20U}};
  sysfs.cpus(grace);
  sysfs.file("/sys/devices/system/cpu/online", "0");
  const NodeTopology node = read_node(sysfs.root(), {});
  EXPECT_EQ(node.numas.size(), 1U);
  EXPECT_EQ(node.cores.size(), 1U);
}

TEST(ReadNode, ReadsWhatOldKernelsShow) {
  const WrittenSysfs sysfs;
  sysfs.file("/sys/devices/system/cpu/online", "0-3");
  for (int cpu = 0; cpu < 4; ++cpu) {
    const std::string folder = format_text("/sys/devices/system/cpu/cpu{}/topology", cpu);
    sysfs.file(folder + "/thread_siblings_list", format_text("{},{}", cpu % 2, cpu % 2 + 2));
    sysfs.file(folder + "/core_siblings_list", "0-3");
    sysfs.file(folder + "/physical_package_id", "0");
  }
  const NodeTopology node = read_node(sysfs.root(), {});
  ASSERT_EQ(node.cores.size(), 2U);
  EXPECT_THAT(node.cores[1].cpus, ElementsAre(1, 3));
  ASSERT_EQ(node.numas.size(), 1U);
  EXPECT_EQ(node.numas[0].id, 0) << "the kernel has none: all CPUs are one";
  EXPECT_EQ(node.cores[1].numa, 0);
  EXPECT_THAT(node.numas[0].cpus, ElementsAre(0, 1, 2, 3));
}

TEST(ReadNode, SurvivesNonsense) {
  const WrittenSysfs sysfs;
  EXPECT_THAT(read_node(sysfs.root(), kAll).cores, IsEmpty());
  sysfs.file("/sys/devices/system/cpu/online", "0-1");
  sysfs.file("/sys/devices/system/cpu/cpu0/topology/core_cpus_list", "0-99999999999");
  sysfs.file("/sys/devices/system/cpu/cpu1/topology/core_cpus_list", "0,5");
  sysfs.file("/sys/devices/system/cpu/cpu1/topology/physical_package_id", "-1");
  sysfs.file("/sys/devices/system/node/online", "a-b");
  sysfs.file("/sys/class/infiniband/x/ports/one/rate", "fast");
  const NodeTopology node = read_node(sysfs.root(), kAll);
  ASSERT_EQ(node.cores.size(), 2U);
  EXPECT_THAT(node.cores[0].cpus, ElementsAre(0));
  EXPECT_EQ(node.nics.size(), 1U);
}

TEST(ReadNode, FindsGpusByTheirDriver) {
  const WrittenSysfs sysfs;
  const auto gpu = [&](const std::string& bus_id, const std::string& driver,
                       const std::string& pci_class) {
    sysfs.pci("/sys/devices/pci0000:00/" + bus_id, driver, 1);
    sysfs.file("/sys/devices/pci0000:00/" + bus_id + "/class", pci_class);
    sysfs.file("/sys/devices/pci0000:00/" + bus_id + "/local_cpulist", "0-3");
  };
  gpu("0000:b1:00.0", "nvidia", "0x030200");
  gpu("0000:1a:00.0", "nvidia", "0x030000");
  gpu("0000:07:00.0", "nvidia", "0x030200");
  gpu("0000:08:00.0", "nvidia", "0x040300");    // its sound
  gpu("0000:09:00.0", "vfio-pci", "0x030200");  // lent to a virtual machine
  gpu("0000:c1:00.0", "amdgpu", "0x038000");
  gpu("0000:00:02.0", "i915", "0x030000");  // in the processor
  gpu("0000:4d:00.0", "i915", "0x038000");
  sysfs.file("/sys/bus/pci/drivers/nvidia/new_id", "");
  sysfs.file("/proc/driver/nvidia/gpus/0000:07:00.0/information",
             "Model: \t\t NVIDIA H100\nIRQ: 1\nGPU UUID: \t GPU-12ab\nDevice Minor: \t 0");
  sysfs.file("/proc/driver/nvidia/gpus/0000:1a:00.0/information",
             "Model: \t\t NVIDIA H100\nGPU UUID: \t GPU-\?\?\?\?\?\?\?\?");
  const NodeTopology node = read_node(sysfs.root(), kAll);
  std::vector<std::string> found;
  for (const NodeGpu& each : node.gpus) found.push_back(each.bus_id);
  EXPECT_THAT(found, ElementsAre("0000:07:00.0", "0000:1a:00.0", "0000:4d:00.0", "0000:b1:00.0",
                                 "0000:c1:00.0"));
  EXPECT_EQ(node.gpus[0].uuid, "GPU-12ab");
  EXPECT_EQ(node.gpus[0].model, "NVIDIA H100");
  EXPECT_EQ(node.gpus[1].uuid, "");
  EXPECT_EQ(node.gpus[3].index, 3);
  EXPECT_EQ(node.gpus[4].vendor, GpuVendor::kAmd);
  EXPECT_EQ(node.gpus[4].numa, 1);
  EXPECT_THAT(node.gpus[4].near_cpus, ElementsAre(0, 1, 2, 3));
}

TEST(ReadNode, JoinsInterfacesAndRdmaDevices) {
  const WrittenSysfs sysfs;
  NodeNic port{"ib0", "mlx5_0", "", "mlx5_core", 1, "InfiniBand", 200, true, 1};
  sysfs.nic(port, "/sys/devices/pci0000:00/0000:00:01.0/0000:0c:00.0");
  sysfs.file("/sys/class/net/ib0.8001/type", "32");
  sysfs.file("/sys/class/net/ib0.8001/operstate", "up");
  sysfs.link("/sys/class/net/ib0.8001/device", "/sys/devices/pci0000:00/0000:00:01.0/0000:0c:00.0");
  // A virtual machine's interface stands one folder below its PCI device.
  sysfs.file("/sys/class/net/eth0/operstate", "up");
  sysfs.file("/sys/class/net/eth0/speed", "-1");
  sysfs.link("/sys/class/net/eth0/device", "/sys/devices/pci0000:00/0000:00:03.0/virtio2");
  // Two ports of a bond; one of them speaks RDMA.
  port = {"eth1", "mlx5_bond_0", "", "mlx5_core", 1, "Ethernet", 100, true, 0};
  sysfs.nic(port, "/sys/devices/pci0000:10/0000:11:00.0");
  sysfs.link("/sys/class/net/eth1/master", "/sys/devices/virtual/net/bond0");
  sysfs.link("/sys/class/net/eth2/master", "/sys/devices/virtual/net/bond0");
  sysfs.link("/sys/class/net/eth2/device", "/sys/devices/pci0000:10/0000:11:00.1");
  sysfs.file("/sys/class/net/lo/type", "772");
  sysfs.file("/sys/class/net/dummy0/operstate", "down");
  const NodeTopology node = read_node(sysfs.root(), kAll);
  std::vector<std::string> found;
  for (const NodeNic& nic : node.nics) found.push_back(nic.name + "/" + nic.device);
  EXPECT_THAT(found, ElementsAre("bond0/mlx5_bond_0", "eth0/", "ib0/mlx5_0"));
  EXPECT_EQ(node.nics[1].bus_id, "0000:00:03.0");
  EXPECT_EQ(node.nics[1].gigabits, 0);
  EXPECT_EQ(node.nics[2].gigabits, 200);
  EXPECT_EQ(node.nics[2].driver, "mlx5_core");
  EXPECT_EQ(node.nics[2].numa, 1);
}

TEST(ReadNode, ReadsThisMachine) {
  const NodeTopology node = read_node("", kAll);
  const CpuSet mask = affinity_mask();
  CpuSet all;
  for (const NodeCore& core : node.cores) all.insert(all.end(), core.cpus.begin(), core.cpus.end());
  if (all.empty()) GTEST_SKIP() << "sysfs is hidden here";
  std::sort(all.begin(), all.end());
  EXPECT_TRUE(std::includes(all.begin(), all.end(), mask.begin(), mask.end()));
}

TEST(FileTree, OrdersNumbersAsNumbers) {
  EXPECT_TRUE(natural_less("ib2", "ib10"));
  EXPECT_FALSE(natural_less("ib10", "ib2"));
  EXPECT_TRUE(natural_less("ib", "ib0"));
  EXPECT_TRUE(natural_less("a007", "b1"));
  EXPECT_FALSE(natural_less("x1", "x1"));
}

}  // namespace
}  // namespace hvd
