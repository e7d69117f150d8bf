// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/machine_facts.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace hvd {
namespace {

TEST(MachineFacts, ReadsInterfacesAndVerbsDevicesBelowARoot) {
  const std::string root = testing::TempDir() + "/lint_machine." + std::to_string(::getpid());
  for (const char* folder : {"net/lo", "net/ib0", "net/hsn0", "infiniband/mlx5_0"}) {
    std::filesystem::create_directories(root + "/sys/class/" + folder);
  }
  const MachineFacts facts = read_machine_facts(root);
  EXPECT_EQ(facts.interfaces, (std::vector<std::string>{"hsn0", "ib0", "lo"}));
  EXPECT_EQ(facts.verbs_devices, (std::vector<std::string>{"mlx5_0"}));
  EXPECT_EQ(facts.nccl_version, "");
  std::filesystem::remove_all(root);
}

TEST(MachineFacts, NothingThereIsNothingFound) {
  const MachineFacts facts = read_machine_facts("/nonexistent");
  EXPECT_TRUE(facts.interfaces.empty());
  EXPECT_TRUE(facts.verbs_devices.empty());
}

}  // namespace
}  // namespace hvd
