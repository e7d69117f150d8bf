// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <string>

#include "world/world.h"
#include "world/world_backends.h"

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
  const Status later = run_request(engine, allreduce_request("later", values));
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

/// A process that has locked the byte of `local_rank`, and waits to be killed.
pid_t fork_with_lock(const LifeLocks& locks, int local_rank) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const char is_locked = locks.lock(local_rank).is_ok() ? 1 : 0;
    if (::write(ends[1], &is_locked, 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char is_locked = 0;
  EXPECT_EQ(::read(ends[0], &is_locked, 1), 1);
  EXPECT_EQ(is_locked, 1);
  ::close(ends[0]);
  ::close(ends[1]);
  return child;
}

TEST(Loss, OfAProcessWithoutAPidfdIsSeenByItsLock) {
  auto locks = LifeLocks::create();
  ASSERT_TRUE(locks.is_ok());
  const pid_t second = fork_with_lock(locks.value(), 1);
  ThreadWorldOptions options;
  options.size = 2;
  options.memory_bytes = [](int local_size) {
    return node_memory_bytes(world_backends(), local_size);
  };
  auto wirings = wire_threads(options);
  ASSERT_TRUE(wirings.is_ok());
  // Rank 1 is that process; it has no engine.
  wirings.value()[0].node.life_locks = std::move(locks).value();
  auto engine =
      Engine::start(std::move(wirings.value()[0]), world_backends(), World::quick_options());
  ASSERT_TRUE(engine.is_ok()) << engine.status().message();
  EXPECT_THAT(engine.value()->describe(), HasSubstr("seen within 0.2 s by its lock: ranks [1]"));
  std::vector<float> values(4, 1.0F);
  const auto handle = engine.value()->submit(allreduce_request("waits", values));
  ASSERT_TRUE(handle.is_ok());
  EXPECT_EQ(engine.value()->wait(handle.value(), Deadline::after(std::chrono::seconds(1))).code(),
            Code::kTimeout);
  ::kill(second, SIGKILL);
  const Status status = engine.value()->wait(handle.value(), soon());
  EXPECT_EQ(status.code(), Code::kPeerLost) << status.message();
  EXPECT_THAT(status.message(), HasSubstr("rank 1 on host"));
  EXPECT_THAT(status.message(), HasSubstr("its process has ended without shutting hvd down"));
  EXPECT_EQ(::waitpid(second, nullptr, 0), second);
}

/// Descriptors of epoll sets of this process, the oldest first.
std::vector<int> epoll_sets() {
  std::vector<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code is_gone;
    const auto target = std::filesystem::read_symlink(entry.path(), is_gone);
    if (target == "anon_inode:[eventpoll]") found.push_back(std::stoi(entry.path().filename()));
  }
  return found;
}

TEST(Loss, OfARankThatCannotWaitForEventsReachesAll) {
  World world({2, 1});
  world.run([](int, Engine& engine) {
    std::vector<float> values(4, 1.0F);
    EXPECT_TRUE(run_request(engine, allreduce_request("loop", values)).is_ok());
  });
  const std::vector<int> sets = epoll_sets();
  ASSERT_EQ(sets.size(), 6U) << "each rank has one, and in it one of its links";
  // No epoll set any more: epoll_wait fails.
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::dup3(null.get(), sets.front(), O_CLOEXEC), sets.front());
  world.run([](int, Engine& engine) {
    std::vector<float> values(4, 1.0F);
    Status status;
    while (status.is_ok()) status = run_request(engine, allreduce_request("loop", values));
    EXPECT_EQ(status.code(), Code::kPeerLost) << status.message();
    EXPECT_THAT(status.message(), HasSubstr("cannot wait for events: epoll_wait"));
  });
}

}  // namespace
}  // namespace hvd
