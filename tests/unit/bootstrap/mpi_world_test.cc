// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/mpi_world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hvd {
namespace {

using ::testing::HasSubstr;

Identity one_of(int size, const std::string& launcher) {
  Identity identity;
  identity.size = size;
  identity.source = launcher;
  identity.details.push_back({.source = launcher, .rank = 0, .size = size});
  return identity;
}

TEST(MpiWorld, IsSilentWithoutMpi) {
  EXPECT_FALSE(mpi_is_loaded());
  EXPECT_FALSE(initialised_mpi_size());
}

TEST(MpiWorld, SingletonsOfAStepAreToldWhatToType) {
  const std::string warning = describe_mpi_mismatch(one_of(4, "Slurm step"), 1);
  EXPECT_THAT(warning,
              HasSubstr("MPI_COMM_WORLD has 1 rank in this process, Slurm step started 4"));
  EXPECT_THAT(warning, HasSubstr("use --mpi=pmix"));
}

TEST(MpiWorld, AForeignLauncherIsNamed) {
  EXPECT_THAT(describe_mpi_mismatch(one_of(4, "Open MPI"), 1), HasSubstr("its own mpirun"));
}

TEST(MpiWorld, SaysNothingWhereAllAgree) {
  EXPECT_EQ(describe_mpi_mismatch(one_of(4, "Slurm step"), 4), "");
  EXPECT_EQ(describe_mpi_mismatch(one_of(1, "Slurm step"), 1), "");
  EXPECT_EQ(describe_mpi_mismatch(one_of(0, "PMIx"), 1), "");
}

}  // namespace
}  // namespace hvd
