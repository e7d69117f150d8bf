// SPDX-License-Identifier: Apache-2.0
#include "launcher/node/fabric.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/node/read_node.h"
#include "written_sysfs.h"

namespace hvd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

NodeNic port(std::string name, std::string device, std::string driver, std::string link,
             double gigabits) {
  NodeNic nic;
  nic.name = std::move(name);
  nic.device = std::move(device);
  nic.driver = std::move(driver);
  nic.link = std::move(link);
  nic.gigabits = gigabits;
  return nic;
}

TEST(Fabric, KeepsTheFastestPortsOfItsKind) {
  std::vector<NodeNic> nics{
      port("eth0", "mlx5_2", "mlx5_core", "Ethernet", 25),
      port("ib0", "mlx5_0", "mlx5_core", "InfiniBand", 200),
      port("ib1", "mlx5_1", "mlx5_core", "InfiniBand", 200),
      port("ib2", "mlx5_3", "mlx5_core", "InfiniBand", 100),
      port("ib3", "mlx5_4", "mlx5_core", "InfiniBand", 200),
  };
  nics[4].is_up = false;
  const Fabric fabric = detect_fabric(nics);
  EXPECT_EQ(fabric.kind, FabricKind::kInfiniBand);
  EXPECT_THAT(fabric.nics, ElementsAre(1, 2));
  EXPECT_THAT(fabric.devices, ElementsAre("mlx5_0", "mlx5_1"));
  EXPECT_THAT(fabric.interfaces, ElementsAre("ib0", "ib1"));
  EXPECT_EQ(fabric.evidence, "mlx5_0, mlx5_1: ports with the link layer InfiniBand, 200 Gb/s each");
  ASSERT_EQ(fabric.unused.size(), 3U);
  EXPECT_EQ(fabric.unused[0].why, "not of this fabric");
  EXPECT_THAT(fabric.unused[1].why, HasSubstr("slower (100 Gb/s)"));
  EXPECT_EQ(fabric.unused[2].why, "the port is down");
}

TEST(Fabric, APortThatIsDownNamesNoFabric) {
  std::vector<NodeNic> nics{port("eth0", "", "e1000e", "", 1),
                            port("ib0", "mlx4_0", "mlx4_core", "InfiniBand", 40)};
  nics[1].is_up = false;
  EXPECT_EQ(detect_fabric(nics).kind, FabricKind::kEthernet);
}

TEST(Fabric, NamesNoneWhereNothingLeavesTheNode) {
  const Fabric fabric = detect_fabric({port("docker0", "", "bridge", "", 0)});
  EXPECT_EQ(fabric.kind, FabricKind::kNone);
  EXPECT_THAT(fabric.evidence, HasSubstr("no network interface"));
  ASSERT_EQ(fabric.unused.size(), 1U);
  EXPECT_EQ(fabric.unused[0].why, "internal to the node");
  EXPECT_THAT(detect_fabric({}).nics, IsEmpty());
}

struct KindCase {
  FabricKind kind;
  std::vector<NodeNic> nics;  ///< As sysfs shows them.
  std::vector<std::string> devices;
  std::vector<std::string> interfaces;
};

/// One tree per kind: what /sys of such a node holds.
std::vector<KindCase> kind_cases() {
  return {
      {FabricKind::kInfiniBand,
       {port("eno1", "", "igb", "", 1), port("ib0", "mlx5_0", "mlx5_core", "InfiniBand", 200)},
       {"mlx5_0"},
       {"ib0"}},
      {FabricKind::kRoce,
       {port("eth0", "mlx5_0", "mlx5_core", "Ethernet", 100), port("eth1", "", "igb", "", 1)},
       {"mlx5_0"},
       {"eth0"}},
      {FabricKind::kOmniPath,
       {port("ib0", "hfi1_0", "hfi1", "InfiniBand", 100),
        port("ib1", "hfi1_1", "hfi1", "InfiniBand", 100)},
       {"hfi1_0", "hfi1_1"},
       {"ib0", "ib1"}},
      {FabricKind::kAries, {port("ipogif0", "", "", "", 0)}, {}, {"ipogif0"}},
      {FabricKind::kSlingshot10,
       {port("hsn0", "mlx5_0", "mlx5_core", "Ethernet", 100)},
       {"mlx5_0"},
       {"hsn0"}},
      {FabricKind::kSlingshot11,
       {port("hsn0", "cxi0", "cxi_ss1", "", 200), port("hsn1", "cxi1", "cxi_ss1", "", 200),
        port("nmn0", "", "igb", "", 1)},
       {"cxi0", "cxi1"},
       {"hsn0", "hsn1"}},
      {FabricKind::kEfa,
       {port("", "rdmap16s27", "efa", "Unspecified", 100), port("ens32", "", "ena", "", 0)},
       {"rdmap16s27"},
       {}},
      {FabricKind::kEthernet,
       {port("eth0", "", "ixgbe", "", 10), port("eth1", "", "igb", "", 1)},
       {},
       {"eth0"}},
  };
}

TEST(Fabric, NamesEachKindFromItsSysfs) {
  for (const KindCase& each : kind_cases()) {
    const WrittenSysfs sysfs;
    int bus = 1;
    for (const NodeNic& nic : each.nics) {
      // Aries' interface has no PCI device.
      const bool is_virtual = nic.driver.empty();
      sysfs.nic(nic,
                is_virtual ? "" : format_text("/sys/devices/pci0000:00/0000:{:02x}:00.0", bus));
      ++bus;
    }
    const NodeTopology node = read_node(sysfs.root(), {false, true, false});
    const Fabric fabric = detect_fabric(node.nics);
    EXPECT_EQ(fabric_name(fabric.kind), fabric_name(each.kind));
    EXPECT_EQ(fabric.devices, each.devices) << fabric.evidence;
    EXPECT_EQ(fabric.interfaces, each.interfaces) << fabric.evidence;
    EXPECT_EQ(fabric.nics.size() + fabric.unused.size(), each.nics.size());
  }
}

}  // namespace
}  // namespace hvd
