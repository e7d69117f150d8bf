// SPDX-License-Identifier: Apache-2.0
#include "engine/plane/planes.h"

#include <gtest/gtest.h>

#include <array>

namespace hvd {
namespace {

Communicator job_of_three() {
  Communicator world;
  world.rank = 0;
  world.size = 3;
  world.world_ranks = {0, 1, 2};
  world.hosts = {"a", "a", "a"};
  world.nodes = {{0, 1, 2}};
  return world;
}

std::unique_ptr<SetPlane> plane_of(Communicator communicator) {
  SetPlane::Parts parts;
  parts.communicator = std::move(communicator);
  alignas(4096) static std::array<std::byte, std::size_t{4} << 20> memory;
  parts.links.memory = memory;  // nothing moves here: all planes may have the same
  return std::make_unique<SetPlane>(std::move(parts), std::span<const BackendEntry>(),
                                    EngineOptions{});
}

RankSet ranks_of(const std::vector<int>& ranks) {
  RankSet set(3);
  for (const int rank : ranks) set.add(rank);
  return set;
}

TEST(Planes, TakeTheFormingPlaneWhenTheLogNamesIt) {
  Planes planes(0, 3);
  planes.open_world(plane_of(job_of_three()));
  auto forming = plane_of(part_of(job_of_three(), {0, 2}));
  SetPlane* const expected = forming.get();
  planes.set_forming(std::move(forming));
  EXPECT_EQ(planes.all().size(), 1U) << "not before the log names it";
  EXPECT_EQ(planes.form(1, ranks_of({0, 2}), 0).value(), expected);
  EXPECT_EQ(planes.find(1), expected);
  EXPECT_EQ(expected->process_set(), 1);
  EXPECT_EQ(planes.last_formed(), 1);
  EXPECT_TRUE(expected->has_member(2));
  EXPECT_FALSE(expected->has_member(1));
}

TEST(Planes, HaveNoneForSetsOfOthers) {
  Planes planes(0, 3);
  const auto formed = planes.form(1, ranks_of({1, 2}), 0);
  ASSERT_TRUE(formed.is_ok());
  EXPECT_EQ(formed.value(), nullptr);
  EXPECT_EQ(planes.last_formed(), 1);
  EXPECT_EQ(planes.retire(1), nullptr);
}

TEST(Planes, SayWhereASetOfThisRankWasNeverConnected) {
  Planes planes(0, 3);
  const auto formed = planes.form(1, ranks_of({0, 1}), 0);
  EXPECT_EQ(formed.status().code(), Code::kInternal);
}

TEST(Planes, GiveARetiredPlaneBack) {
  Planes planes(0, 3);
  planes.open_world(plane_of(job_of_three()));
  planes.set_forming(plane_of(part_of(job_of_three(), {0, 1})));
  SetPlane* const plane = planes.form(1, ranks_of({0, 1}), 0).value();
  EXPECT_EQ(planes.retire(1).get(), plane);
  EXPECT_EQ(planes.find(1), nullptr);
  EXPECT_NE(planes.find(0), nullptr);
}

}  // namespace
}  // namespace hvd
