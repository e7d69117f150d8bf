// SPDX-License-Identifier: Apache-2.0
// In the job of another scheduler than Slurm, nobody gets the ranks of one node without a word.
#include "launcher/plan/other_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "launcher/plan/allocation.h"
#include "launcher/plan/placement.h"

namespace hvd {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Variables = std::map<std::string, std::string, std::less<>>;

class OtherJobs : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(file_); }
  /// A file of nodes for this test.
  std::string file_of(const std::string& text) const {
    std::ofstream(file_) << text;
    return file_;
  }

 private:
  const std::string file_ = ::testing::TempDir() + "hvd_nodes_" +
                            ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

Result<Placement> placed(const Variables& variables, RunOptions options) {
  Allocation allocation;
  allocation.environment = Environment(variables);
  allocation.launch = LocalLaunch{.around = {}, .other = read_other_job(allocation.environment)};
  allocation.host = "x1";
  allocation.hosts = {"x1"};
  options.command = {"prog"};
  return place(options, allocation);
}

TEST_F(OtherJobs, AreReadWithTheirNumberOfNodes) {
  struct Case {
    Variables variables;
    std::string text;
  };
  const std::string slots = file_of("x1\nx1\nx2\nx2\nx3 4 gpu.q@x3 UNDEFINED\n\n");
  const Case cases[] = {
      {{{"PBS_NODEFILE", slots}}, "a job of PBS on 3 nodes (PBS_NODEFILE)"},
      {{{"OAR_NODEFILE", slots}}, "a job of OAR on 3 nodes (OAR_NODEFILE)"},
      {{{"PE_HOSTFILE", slots}}, "a job of Grid Engine on 3 nodes (PE_HOSTFILE)"},
      {{{"LSB_MCPU_HOSTS", "batch1 1 x1 42 x2 42 "}}, "a job of LSF on 3 nodes (LSB_MCPU_HOSTS)"},
      {{{"FLUX_URI", "local:///run/flux/local"}}, "a job of Flux (FLUX_URI)"},
      {{{"PBS_NODEFILE", "/nowhere/7.pbs"}}, "a job of PBS (PBS_NODEFILE)"},
  };
  for (const Case& one : cases) {
    const auto job = read_other_job(Environment(one.variables));
    ASSERT_TRUE(job) << one.text;
    EXPECT_EQ(describe_other_job(*job), one.text);
  }
  EXPECT_FALSE(read_other_job(Environment(Variables{{"PBS_NODEFILE", ""}, {"HOME", "/root"}})));
}

TEST_F(OtherJobs, OfSeveralNodesAreRefusedWithWhatToType) {
  const Variables pbs{{"PBS_NODEFILE", file_of("x1\nx2\n")}};
  const auto refused = placed(pbs, {});
  EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(refused.status().message(),
              AllOf(HasSubstr("this is a job of PBS on 2 nodes (PBS_NODEFILE)"),
                    HasSubstr("`mpiexec -n RANKS --hostfile \"$PBS_NODEFILE\" hvdrun PROGRAM`"),
                    HasSubstr("`hvdrun -np N PROGRAM` for ranks on this machine (x1)")));
  EXPECT_THAT(placed({{"FLUX_URI", "local:///x"}}, {}).status().message(),
              HasSubstr("`flux run -N NODES -n RANKS hvdrun PROGRAM`"));
}

TEST_F(OtherJobs, OfOneNodeArePlacedOnIt) {
  const auto one = placed({{"PBS_NODEFILE", file_of("x1\nx1\n")}}, {});
  ASSERT_TRUE(one.is_ok()) << one.status().message();
  EXPECT_THAT(one.value().warnings, IsEmpty());
}

TEST_F(OtherJobs, RanksOfNpAreToldOfTheOtherNodes) {
  const Variables pbs{{"PBS_NODEFILE", file_of("x1\nx2\n")}};
  RunOptions options;
  options.ranks = 4;
  const auto warned = placed(pbs, options);
  ASSERT_TRUE(warned.is_ok()) << warned.status().message();
  EXPECT_THAT(warned.value().warnings,
              ElementsAre(AllOf(HasSubstr("-np: all 4 ranks start on this machine (x1), which is "
                                          "in a job of PBS on 2 nodes"),
                                HasSubstr("add --nodes 1 if this machine is meant"))));
  options.nodes = 1;
  EXPECT_THAT(placed(pbs, options).value().warnings, IsEmpty());
  options = {};
  options.ranks = 1;
  EXPECT_THAT(placed(pbs, options).value().warnings, IsEmpty());
}

TEST_F(OtherJobs, OfTheRankThatThisProcessIsAreNoMatter) {
  Variables rank{{"PBS_NODEFILE", file_of("x1\nx2\n")}};
  rank.insert({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}});
  rank.insert({{"OMPI_COMM_WORLD_LOCAL_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}});
  RunOptions options;
  options.command = {"prog"};
  const auto task = read_allocation(options, Environment(rank));
  ASSERT_TRUE(task.is_ok()) << task.status().message();
  EXPECT_NE(task.value().task(), nullptr);
  const auto shell = read_allocation(options, Environment(Variables{{"FLUX_URI", "local:///x"}}));
  ASSERT_TRUE(shell.is_ok()) << shell.status().message();
  ASSERT_NE(shell.value().local(), nullptr);
  EXPECT_TRUE(has_other_nodes(shell.value().local()->other));
}

}  // namespace
}  // namespace hvd
