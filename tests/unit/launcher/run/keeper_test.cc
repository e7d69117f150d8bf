// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/keeper.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "base/deadline.h"

namespace hvd {
namespace {

Command shell(int rank, const std::string& line) {
  Command command;
  command.rank = rank;
  command.program = "/bin/sh";
  command.arguments = {"sh", "-c", line};
  return command;
}

/// The reports that come until there are `count`, or 30 s are over.
std::vector<std::pair<int, int>> receive(Keeper& keeper, std::size_t count) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(30));
  std::vector<RankEnded> ended;
  while (ended.size() < count && !deadline.has_passed()) {
    pollfd wait{.fd = keeper.socket(), .events = POLLIN, .revents = 0};
    (void)::poll(&wait, 1, deadline.poll_timeout_ms());
    if (!keeper.receive(ended)) break;
  }
  std::vector<std::pair<int, int>> codes;
  codes.reserve(ended.size());
  for (const RankEnded& one : ended) codes.emplace_back(one.index, WEXITSTATUS(one.status));
  return codes;
}

/// A program that nobody can begin to execute while this lives: the kernel holds execve() back.
class HeldProgram {
 public:
  HeldProgram() {
    EXPECT_NE(::mkdtemp(folder_.data()), nullptr);
    std::ofstream(path()) << "#!/bin/sh\nexit 0\n";
    (void)::chmod(path().c_str(), 0755);
    before_ = std::signal(SIGIO, SIG_IGN);  // The kernel asks for the lease back by it.
    file_.reset(::open(path().c_str(), O_RDONLY | O_CLOEXEC));
    is_held_ = ::fcntl(file_.get(), F_SETLEASE, F_WRLCK) == 0;
  }
  ~HeldProgram() {
    let_go();
    (void)std::signal(SIGIO, before_);
    std::filesystem::remove_all(folder_);
  }
  HeldProgram(const HeldProgram&) = delete;
  HeldProgram& operator=(const HeldProgram&) = delete;

  std::string path() const { return folder_ + "/program"; }
  bool is_held() const { return is_held_; }
  void let_go() { (void)::fcntl(file_.get(), F_SETLEASE, F_UNLCK); }

 private:
  std::string folder_ = testing::TempDir() + "/held.XXXXXX";
  UniqueFd file_;
  bool is_held_ = false;
  void (*before_)(int) = SIG_DFL;
};

TEST(Keeper, ReportsEachRankWithItsOwnCodeThoughOneIsSlowToBecomeItsProgram) {
  HeldProgram held;
  if (!held.is_held()) GTEST_SKIP() << "this file system gives no leases";
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  UniqueFd go(ends[1]);
  Command slow;
  slow.rank = 1;
  slow.program = held.path();
  slow.arguments = {"program"};
  const std::vector<Command> commands{shell(0, "exit 0"), slow, shell(2, "read line; exit 7")};
  std::vector<RankStreams> streams(commands.size());
  streams[2].input.reset(ends[0]);
  Result<Keeper> keeper = Keeper::start(commands, std::move(streams), {});
  ASSERT_TRUE(keeper.is_ok()) << keeper.status().message();
  EXPECT_THAT(receive(keeper.value(), 1), testing::ElementsAre(std::pair(0, 0)));
  ASSERT_EQ(::write(go.get(), "\n", 1), 1);
  EXPECT_THAT(receive(keeper.value(), 1), testing::ElementsAre(std::pair(2, 7)));
  held.let_go();
  EXPECT_THAT(receive(keeper.value(), 1), testing::ElementsAre(std::pair(1, 0)));
  keeper.value().release();
  EXPECT_EQ(::waitpid(keeper.value().pid(), nullptr, 0), keeper.value().pid());
}

TEST(Keeper, KeepsNothingOpenOfWhatHvdrunHasOpen) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd holds_rank(ends[1]);
  std::vector<RankStreams> streams(1);
  streams[0].input.reset(ends[0]);
  const std::vector<Command> commands{shell(0, "read line")};
  Result<Keeper> keeper = Keeper::start(commands, std::move(streams), {});
  ASSERT_TRUE(keeper.is_ok()) << keeper.status().message();
  writer.reset();
  // The rank lives on, but its copy went when it became its program.
  pollfd wait{.fd = reader.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&wait, 1, 30'000), 1) << "the keeper holds the other end of the pipe";
  EXPECT_NE(wait.revents & POLLHUP, 0);
  keeper.value().release();
  EXPECT_EQ(::waitpid(keeper.value().pid(), nullptr, 0), keeper.value().pid());
}

}  // namespace
}  // namespace hvd
