// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hvd {
namespace {

using testing::ElementsAre;

TEST(Command, ALaterStepIsOnOneNodeBesideTheOthers) {
  Command srun;
  srun.arguments = {"srun",    "--label", "--input=0", "--no-kill", "--nodes=3", "--ntasks=6",
                    "/hvdrun", "run",     "--",        "python3",   "--nodes=9"};
  srun.variables = {"A=1", "HVD_REPORT_STEP=0", "HVD_REPORT_STEP_NOT=2"};
  srun.takes_stdin = true;
  const Command later = later_srun(srun, {.host = "jz2", .tasks = 2, .first_process = 6});
  EXPECT_THAT(later.arguments,
              ElementsAre("srun", "--overlap", "--input=none", "--nodes=1", "--nodelist=jz2",
                          "--ntasks=2", "--ntasks-per-node=2", "--label", "--no-kill", "/hvdrun",
                          "run", "--", "python3", "--nodes=9"));
  EXPECT_THAT(later.variables, ElementsAre("A=1", "HVD_REPORT_STEP=6", "HVD_REPORT_STEP_NOT=2"));
  EXPECT_EQ(later.first_process, 6);
  EXPECT_FALSE(later.takes_stdin);
}

TEST(Command, StartsAgainWithoutARank) {
  Command lost;
  lost.rank = 1;
  lost.starts_later = true;
  lost.variables = {"HVD_RANK=1", "HVD_PROCESS=1", "RANK=1", "LANG=C"};
  const Command again = restarted(lost, 5);
  EXPECT_EQ(again.rank, 5);
  EXPECT_TRUE(again.is_spare);
  EXPECT_FALSE(again.starts_later);
  EXPECT_THAT(again.variables, ElementsAre("LANG=C", "HVD_PROCESS=5"));
  EXPECT_EQ(commands_to_start({lost, again, again}), 2U);
}

}  // namespace
}  // namespace hvd
