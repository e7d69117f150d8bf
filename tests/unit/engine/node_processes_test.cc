// SPDX-License-Identifier: Apache-2.0
#include "engine/node_processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvd {
namespace {

using testing::HasSubstr;

/// A process that does nothing until it is killed.
class Sleeper {
 public:
  Sleeper() : pid_(::fork()) {
    if (pid_ == 0) {
      while (true) ::pause();
    }
  }
  ~Sleeper() { end(); }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  pid_t pid() const { return pid_; }
  UniqueFd pid_fd() const { return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0))); }
  void end() {
    if (std::exchange(ended_, true)) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  void stop() const {
    ::kill(pid_, SIGSTOP);
    int status = 0;
    ::waitpid(pid_, &status, WUNTRACED);
    ASSERT_TRUE(WIFSTOPPED(status));
  }

 private:
  pid_t pid_;
  bool ended_ = false;
};

/// Rank `rank` of ranks 0 and 1 on this node and 2 on another; the other rank of the node is a
/// Sleeper.
class NodeProcessesTest : public testing::Test {
 protected:
  void be(int rank) {
    world_.rank = rank;
    world_.local_rank = rank;
    world_.size = 3;
    world_.nodes = {{0, 1}, {2}};
    world_.hosts = {"a", "a", "b"};
    for (int one = 0; one < 3; ++one) {
      peers_.push_back(
          {.rank = one, .host = "a", .pid = one == rank ? ::getpid() : other_.pid(), .mpi = {}});
    }
    node_.local_rank = rank;
    node_.local_size = 2;
    node_.pid_fds.resize(2);
    node_.pid_fds[static_cast<std::size_t>(1 - rank)] = other_.pid_fd();
    if (!node_.pid_fds[static_cast<std::size_t>(1 - rank)].is_open()) {
      GTEST_SKIP() << "this kernel has no pidfd";
    }
  }

  Sleeper other_;
  Communicator world_;
  std::vector<PeerInfo> peers_;
  NodeGroup node_;
};

TEST_F(NodeProcessesTest, KnowWhoCanNoLongerWriteHere) {
  be(0);
  const NodeProcesses processes(world_, peers_, node_);
  EXPECT_FALSE(processes.has_ended(0, true)) << "that is me";
  EXPECT_TRUE(processes.has_ended(2, false)) << "on another node";
  EXPECT_FALSE(processes.has_ended(1, true)) << "a lost one may live";
  other_.end();
  EXPECT_TRUE(processes.has_ended(1, false));
}

TEST_F(NodeProcessesTest, CountTheLooksInWhichAProcessIsStopped) {
  be(0);
  NodeProcesses processes(world_, peers_, node_);
  auto now = Clock::now();
  EXPECT_TRUE(processes.look_if_due(now).empty()) << "it runs";
  other_.stop();
  EXPECT_TRUE(processes.look_if_due(now).empty()) << "no look is due";
  for (const int looks : {1, 2}) {
    now += NodeProcesses::kLookInterval;
    const auto stopped = processes.look_if_due(now);
    ASSERT_EQ(stopped.size(), 1U);
    EXPECT_EQ(stopped.front().rank, 1);
    EXPECT_EQ(stopped.front().looks, looks);
    EXPECT_THAT(std::string(stopped.front().stop), HasSubstr("stopped"));
  }
  ::kill(other_.pid(), SIGCONT);
  int status = 0;
  ASSERT_EQ(::waitpid(other_.pid(), &status, WCONTINUED), other_.pid());
  now += NodeProcesses::kLookInterval;
  EXPECT_TRUE(processes.look_if_due(now).empty());
  other_.stop();
  now += NodeProcesses::kLookInterval;
  EXPECT_EQ(processes.look_if_due(now).front().looks, 1) << "counted anew";
}

TEST_F(NodeProcessesTest, OfTheSecondRankLookAtTheFirst) {
  be(1);
  NodeProcesses processes(world_, peers_, node_);
  EXPECT_TRUE(processes.stop_of_first().empty());
  other_.stop();
  EXPECT_FALSE(processes.stop_of_first().empty());
  const auto stopped = processes.look_if_due(Clock::now());
  ASSERT_EQ(stopped.size(), 1U);
  EXPECT_EQ(stopped.front().rank, 0);
}

TEST_F(NodeProcessesTest, OfTheFirstRankDoNotBlameIt) {
  be(0);
  other_.stop();
  EXPECT_TRUE(NodeProcesses(world_, peers_, node_).stop_of_first().empty());
}

}  // namespace
}  // namespace hvd
