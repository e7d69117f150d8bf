// SPDX-License-Identifier: Apache-2.0
#include "engine/plane/process_sets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hvd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Communicator four() {
  Communicator world;
  world.rank = 1;
  world.size = 4;
  world.world_ranks = {0, 1, 2, 3};
  world.hosts = {"a", "a", "a", "a"};
  world.nodes = {{0, 1, 2, 3}};
  world.local_rank = 1;
  return world;
}

/// Rank 1 of 4; set 1 has ranks 1 and 3, set 2 ranks 0 and 2.
class ProcessSetsTest : public testing::Test {
 protected:
  ProcessSetsTest() : sets_(world_, submission_, completion_) {
    sets_.open_world(world_plane_);
    SetPlane::Parts parts;
    parts.communicator = part_of(world_, {1, 3});
    parts.links.memory = plane_memory_;
    plane_ = std::make_unique<SetPlane>(std::move(parts), std::span<const BackendEntry>(),
                                        EngineOptions{});
    plane_->set_number(1);
    sets_.add(1, {1, 3}, plane_.get());
    sets_.add(2, {0, 2}, nullptr);
  }

  Request request(int process_set, Operation operation = Allreduce{}) {
    Request one;
    one.name = "t";
    one.process_set = process_set;
    one.operation = operation;
    one.tensors.push_back(
        {.input = memory_, .output = memory_, .dtype = DataType::kFloat32, .shape = {2}});
    return one;
  }
  Status enter(Request one) { return sets_.enter(one); }
  SetLinks links() {
    SetLinks of_world;
    of_world.memory = plane_memory_;
    return of_world;
  }
  static std::string message(const Status& status) { return std::string(status.message()); }

  const Communicator world_ = four();
  alignas(64) std::array<std::byte, std::size_t{4} << 20> plane_memory_{};  ///< Nothing moves.
  Timeline timeline_{1, "a"};
  Completion completion_{1};
  Submission submission_{timeline_};
  SetPlane world_plane_{{.communicator = world_, .links = links(), .doorbell = {}, .arena = {}},
                        std::span<const BackendEntry>(),
                        EngineOptions{}};
  std::unique_ptr<SetPlane> plane_;
  ProcessSets sets_;
  float memory_[2] = {};
};

TEST_F(ProcessSetsTest, TakeRequestsForTheSetsOfThisRank) {
  EXPECT_TRUE(enter(request(0)).is_ok());
  EXPECT_TRUE(enter(request(1)).is_ok());
  EXPECT_EQ(plane_->requests(), 1U);
  EXPECT_EQ(world_plane_.requests(), 0U) << "not counted: it is never removed";
}

TEST_F(ProcessSetsTest, SayWhyARequestIsRefused) {
  struct Case {
    int process_set;
    Operation operation;
    std::string part;
  };
  const Case cases[] = {
      {2, Allreduce{}, "this rank is not in process set 2 (ranks [0, 2])"},
      {7, Allreduce{}, "there is no process set 7"},
      {1, Broadcast{0}, "root 0 is not in process set 1 (ranks [1, 3])"},
      {0, Join{}, "a join is not a request"},
  };
  for (const Case& one : cases) {
    const Status status = enter(request(one.process_set, one.operation));
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_THAT(message(status), HasSubstr("rank 1: "));
    EXPECT_THAT(message(status), HasSubstr(one.part));
  }
  EXPECT_EQ(plane_->requests(), 0U);
}

TEST_F(ProcessSetsTest, NameTheRootByItsPlaceInTheSet) {
  Request one = request(1, Broadcast{3});
  ASSERT_TRUE(sets_.enter(one).is_ok());
  EXPECT_EQ(root_of(one.operation), 1);
}

TEST_F(ProcessSetsTest, TakeNothingBetweenAJoinAndItsEnd) {
  for (const int process_set : {0, 1}) {
    const auto join = sets_.enter_join(process_set, false);
    ASSERT_TRUE(join.is_ok());
    EXPECT_EQ(sets_.has_joined_world(), process_set == 0);
    EXPECT_EQ(sets_.enter_join(process_set, false).value(), join.value()) << "one join at a time";
    EXPECT_FALSE(sets_.enter_join(process_set, true).is_ok()) << "another kind of average";
    EXPECT_THAT(message(enter(request(process_set))), HasSubstr("wait for the join to end"));
    sets_.leave_join(process_set, join.value());
    EXPECT_TRUE(enter(request(process_set)).is_ok());
  }
}

TEST_F(ProcessSetsTest, TakeNothingForASetThatCloses) {
  ASSERT_EQ(sets_.close(1).value(), plane_.get());
  EXPECT_THAT(message(enter(request(1))), HasSubstr("this rank is removing process set 1"));
  sets_.reopen(1);
  EXPECT_TRUE(enter(request(1)).is_ok());
  sets_.erase(1);
  EXPECT_THAT(message(enter(request(1))), HasSubstr("there is no process set 1"));
  EXPECT_THAT(sets_.ids(), ElementsAre(0, 2));
  EXPECT_FALSE(sets_.close(0).is_ok()) << "the set of all ranks stays";
}

TEST_F(ProcessSetsTest, CheckTheRanksOfANewSet) {
  struct Case {
    std::vector<int> ranks;
    std::string part;  ///< Of the error; empty: fine.
  };
  const Case cases[] = {
      {{2, 1}, ""},
      {{}, "at least one rank"},
      {{4}, "4 is not a rank of the job (0 to 3)"},
      {{-1, 2}, "-1 is not a rank of the job (0 to 3)"},
      {{2, 2}, "rank 2 is listed twice"},
      {{3, 1}, "are process set 1 already"},
  };
  for (Case one : cases) {
    const Status status = sets_.check_new(one.ranks);
    EXPECT_EQ(status.is_ok(), one.part.empty());
    EXPECT_THAT(message(status), HasSubstr(one.part));
  }
}

TEST_F(ProcessSetsTest, BindOneGpuPerSet) {
  Request first = request(1);
  first.device = {DeviceKind::kCuda, 1};
  EXPECT_TRUE(plane_->bind_gpu(first).is_ok());
  Request second = first;
  second.device.index = 0;
  const Status status = plane_->bind_gpu(second);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(message(status), HasSubstr("is on GPU 0, process set 1 works on GPU 1"));
  EXPECT_EQ(plane_->gpu_of_stand_in(nullptr, 0), 1);
}

}  // namespace
}  // namespace hvd
