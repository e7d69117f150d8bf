// SPDX-License-Identifier: Apache-2.0
// `hvdrun -np N` inside every recorded situation: its ranks are its own, whatever is around it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "launcher/plan/environment_plan.h"
#include "launcher/plan/placement.h"
#include "topology/identity.h"
#include "topology/launch_source.h"

namespace hvd {
namespace {

Environment read_environment(const std::filesystem::path& path) {
  Environment environment;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t sign = line.find('=');
    if (line.starts_with("#") || sign == std::string::npos) continue;
    environment.set(line.substr(0, sign), line.substr(sign + 1));
  }
  return environment;
}

Environment of_lines(const std::vector<std::string>& lines) {
  Environment environment;
  for (const std::string& line : lines) {
    const std::size_t sign = line.find('=');
    environment.set(line.substr(0, sign), line.substr(sign + 1));
  }
  return environment;
}

TEST(NestedRun, RanksOfNpAreHvdrunsInEverySituation) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(HVD_ENVIRONMENTS_DIR)) {
    SCOPED_TRACE(entry.path().filename().string());
    ++count;
    Allocation allocation;
    allocation.environment = read_environment(entry.path());
    allocation.environment.unset("CUDA_VISIBLE_DEVICES");
    allocation.host = "box";
    allocation.hosts = {"box"};
    allocation.mask = {0, 1, 2};
    RunOptions options;
    options.ranks = 3;
    options.command = {"prog"};
    const auto placement = place(options, allocation);
    ASSERT_TRUE(placement.is_ok()) << placement.status().message();
    const EnvironmentPlan plan =
        plan_environment(options, allocation, MachineEnvironment{}, placement.value(), JobFacts{});
    const Environment inner =
        of_lines(rank_environment(plan, allocation.environment, plan.each_rank.at(2)));
    const auto identity = derive_identity(inner);
    ASSERT_TRUE(identity.is_ok()) << identity.status().message();
    ASSERT_TRUE(identity.value().has_value());
    EXPECT_EQ(identity.value()->source, "hvdrun");
    EXPECT_EQ(identity.value()->rank, 2);
    EXPECT_EQ(identity.value()->size, 3);
    EXPECT_EQ(identity.value()->details.size(), 2U) << "hvdrun, RANK and WORLD_SIZE, and no other";
    for (const LaunchSource& source : kLaunchSources) {
      if (source.layer == LauncherLayer::kHvdrun) continue;
      for (const std::string_view name : source.variables()) {
        if (std::find(kTorchIdentity.begin(), kTorchIdentity.end(), name) != kTorchIdentity.end()) {
          continue;
        }
        EXPECT_FALSE(inner.has(name)) << name;
      }
    }
  }
  EXPECT_GE(count, 60U);
}

TEST(NestedRun, NodesOfMpirunAreKnownToBeSeveral) {
  const std::filesystem::path folder(HVD_ENVIRONMENTS_DIR);
  const auto nodes = [&](const std::string& file, std::vector<std::string> hosts) {
    Allocation allocation;
    allocation.environment = read_environment(folder / file);
    allocation.launch = TaskLaunch{derive_identity(allocation.environment).value().value()};
    allocation.hosts = std::move(hosts);
    allocation.mask = {0, 1};
    return place(RunOptions{}, allocation).value().node_count;
  };
  EXPECT_EQ(nodes("openmpi_5_in_salloc.env", {"jz1", "jz2"}), 2);
  EXPECT_EQ(nodes("intel_mpi_in_salloc.env", {"box"}), 2);
  EXPECT_EQ(nodes("mpich.env", {"jz1", "jz2"}), 1);
  EXPECT_EQ(nodes("flux.env", {"box"}), 2);
  EXPECT_EQ(nodes("rank_and_world_size.env", {"box"}), 1);
}

TEST(NestedRun, InARankOfSeveralIsRefusedUnlessItIsMeant) {
  Allocation allocation;
  allocation.host = "box";
  allocation.hosts = {"box"};
  allocation.mask = {0, 1};
  RunOptions options;
  options.ranks = 2;
  options.command = {"prog"};
  EXPECT_TRUE(place(options, allocation).is_ok()) << "a laptop";
  LocalLaunch launch;
  launch.around = Identity{.rank = 0, .size = 1, .source = "Slurm step", .details = {}};
  allocation.launch = launch;
  EXPECT_TRUE(place(options, allocation).is_ok()) << "srun -n1 hvdrun -np 2";
  launch.around = Identity{.rank = 3, .size = 8, .source = "Slurm step", .details = {}};
  allocation.launch = launch;
  const Status of_step = place(options, allocation).status();
  EXPECT_EQ(of_step.code(), Code::kInvalidArgument);
  EXPECT_THAT(of_step.message(), testing::HasSubstr("rank 3 of 8 already (by Slurm step)"));
  EXPECT_THAT(of_step.message(), testing::HasSubstr("srun --ntasks-per-node=N hvdrun PROGRAM"));
  launch.around->source = "hvdrun";
  allocation.launch = launch;
  EXPECT_THAT(place(options, allocation).status().message(),
              testing::HasSubstr("`hvdrun PROGRAM` becomes this rank"));
  options.nested = true;
  EXPECT_TRUE(place(options, allocation).is_ok());
}

}  // namespace
}  // namespace hvd
