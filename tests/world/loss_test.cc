// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <atomic>
#include <string>

#include "world/world.h"

namespace hvd {
namespace {

using testing::HasSubstr;

/// What a survivor sees: the operation under way fails, and all that come later do so at once.
void expect_loss(Engine& engine, int rank, int dead, std::size_t count) {
  const auto name = "rank " + std::to_string(dead) + " ";
  std::vector<float> values(count, 1.0F);
  Status status;
  while (status.is_ok()) status = run_request(engine, allreduce_request("loop", values));
  EXPECT_EQ(status.code(), Code::kPeerLost) << rank << ": " << status.message();
  EXPECT_THAT(status.message(), HasSubstr(name));
  const auto begin = Clock::now();
  const Status later = run_request(engine, allreduce_request("later", values));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(1));
  EXPECT_EQ(later.code(), Code::kPeerLost) << rank << ": " << later.message();
  EXPECT_THAT(later.message(), HasSubstr(name));
}

/// The engine of `dead` ends without shutdown while the others wait for it.
void lose(std::vector<int> node_sizes, int dead, std::size_t count) {
  World world(std::move(node_sizes));
  world.run([count](int, Engine& engine) {
    std::vector<float> values(count, 1.0F);
    EXPECT_TRUE(run_request(engine, allreduce_request("loop", values)).is_ok());
  });
  world.kill(dead);
  world.run([&](int rank, Engine& engine) { expect_loss(engine, rank, dead, count); });
}

TEST(Loss, OfTheRoot) { lose({1, 1, 1}, 0, 16); }

TEST(Loss, OfALeafOfTheTree) { lose({1, 1, 1}, 2, 16); }

TEST(Loss, OfAnInnerLeader) { lose({1, 1, 1, 1, 1, 1, 1}, 1, 16); }

TEST(Loss, ReachesTheMembersOfOtherNodes) { lose({3, 2, 1}, 5, 16); }

TEST(Loss, OfALargeOperation) { lose({2, 1}, 2, std::size_t{1} << 20); }

TEST(Loss, ComesToWhatIsUnderWay) {
  World world({1, 1, 1});
  std::atomic<int> submitted{0};
  world.run([&](int rank, Engine& engine) {
    if (rank == 1) {
      while (submitted.load() < 2) std::this_thread::yield();
      world.kill(1);
      return;
    }
    std::vector<float> values(1000, 1.0F);
    const auto handle = engine.submit(allreduce_request("waits", values));
    ASSERT_TRUE(handle.is_ok());
    submitted.fetch_add(1);
    const Status status = engine.wait(handle.value(), soon());
    EXPECT_EQ(status.code(), Code::kPeerLost) << status.message();
    EXPECT_THAT(status.message(), HasSubstr("rank 1 "));
  });
}

TEST(Loss, ByAbortTellsItsCause) {
  for (const std::vector<int>& node_sizes : {std::vector<int>{2}, {1, 1}, {2, 1}}) {
    World world(node_sizes);
    world.run([](int rank, Engine& engine) {
      if (rank == 1) engine.abort("ValueError: no data");
      std::vector<float> values(4, 1.0F);
      const Status status = run_request(engine, allreduce_request("waits", values));
      EXPECT_EQ(status.code(), Code::kPeerLost) << status.message();
      EXPECT_THAT(status.message(), HasSubstr("rank 1 "));
      EXPECT_THAT(status.message(), HasSubstr("ValueError: no data"));
    });
  }
}

}  // namespace
}  // namespace hvd
