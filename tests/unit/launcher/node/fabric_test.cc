// SPDX-License-Identifier: Apache-2.0
#include "launcher/node/fabric.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace hvd
