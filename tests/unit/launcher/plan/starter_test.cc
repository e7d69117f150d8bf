// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/starter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hvd {
namespace {

using testing::HasSubstr;

Status checked(const std::string& size, int starts, std::optional<int> asked = std::nullopt,
               Launch launch = LocalLaunch()) {
  RunOptions options;
  options.ranks = asked;
  Allocation allocation;
  allocation.launch = std::move(launch);
  allocation.environment.set("WORLD_SIZE", size);
  Placement placement;
  placement.size = starts;
  return check_lone_size(options, allocation, placement);
}

TEST(Starter, RefusesAnotherNumberOfRanksThanOneThatWasLeft) {
  const Status status = checked("4", 1);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("WORLD_SIZE=4 speaks of several ranks"));
  EXPECT_THAT(status.message(), HasSubstr("and 1 would start here: type `hvdrun -np N PROGRAM`"));
  EXPECT_FALSE(checked("four", 1).is_ok());
}

TEST(Starter, TakesTheNumberThatWasMeant) {
  EXPECT_TRUE(checked("4", 4).is_ok()) << "one per GPU";
  EXPECT_TRUE(checked("1", 2).is_ok());
  EXPECT_TRUE(checked("4", 2, 2).is_ok()) << "-np 2";
  EXPECT_TRUE(checked("4", 8, std::nullopt, SrunLaunch()).is_ok()) << "Slurm knows the ranks";
}

TEST(Starter, RefusesAStepWhereTheSiteHasAnotherStarter) {
  SiteConfig site;
  site.id = "lab";
  site.scheduler.launcher = "ibrun";
  Placement placement;
  EXPECT_TRUE(check_starter(site, placement).is_ok());
  placement.srun.emplace();
  EXPECT_THAT(check_starter(site, placement).message(), HasSubstr("type `ibrun hvdrun PROGRAM`"));
  site.scheduler.launcher = "srun";
  EXPECT_TRUE(check_starter(site, placement).is_ok());
}

}  // namespace
}  // namespace hvd
