// SPDX-License-Identifier: Apache-2.0
// Real processes that find each other: argv[1] is bootstrap_probe.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/descriptor_limit.h"
#include "bootstrap/tcp_store_server.h"
#include "transport/socket_io.h"

namespace hvd {
namespace {

std::string probe_path;

struct Outcome {
  int status = 0;
  std::string output;
};

/// One rank as a child process; killed with the object if it is still there.
class Rank {
 public:
  /// `shell`: what /bin/sh does before it becomes the rank; empty: nothing.
  explicit Rank(std::vector<std::string> variables, const std::string& shell = {}) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    output_ = UniqueFd(ends[0]);
    const UniqueFd theirs(ends[1]);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, theirs.get(), 1);
    ::posix_spawn_file_actions_adddup2(&actions, theirs.get(), 2);
    std::vector<char*> environment;
    for (std::string& variable : variables) environment.push_back(variable.data());
    environment.push_back(nullptr);
    std::vector<std::string> words = {probe_path};
    if (!shell.empty()) words = {"/bin/sh", "-c", shell + "; exec " + probe_path};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    EXPECT_EQ(::posix_spawn(&pid_, words[0].c_str(), &actions, nullptr, arguments.data(),
                            environment.data()),
              0);
    ::posix_spawn_file_actions_destroy(&actions);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;
  ~Rank() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }

  Outcome finish(Deadline deadline) {
    Outcome outcome;
    std::array<char, 4096> buffer;
    while (wait_ready(output_.get(), 1, deadline).value_or(false)) {
      const auto got = ::read(output_.get(), buffer.data(), buffer.size());
      if (got <= 0) break;
      outcome.output.append(buffer.data(), static_cast<std::size_t>(got));
    }
    if (deadline.has_passed()) return {.status = -1, .output = outcome.output + "(too slow)"};
    ::waitpid(pid_, &outcome.status, 0);
    pid_ = -1;
    return outcome;
  }

 private:
  pid_t pid_ = -1;
  UniqueFd output_;
};

std::vector<Outcome> run(const std::vector<std::vector<std::string>>& ranks,
                         const std::string& shell_of_last = {}) {
  std::vector<std::unique_ptr<Rank>> children;
  for (const auto& variables : ranks) {
    const bool is_last = children.size() + 1 == ranks.size();
    children.push_back(std::make_unique<Rank>(variables, is_last ? shell_of_last : std::string()));
  }
  const Deadline deadline = Deadline::after(std::chrono::seconds(90));
  std::vector<Outcome> outcomes;
  for (auto& child : children) outcomes.push_back(child->finish(deadline));
  return outcomes;
}

std::vector<std::vector<std::string>> hvdrun_ranks(const TcpStoreServer& server, const JobKey& key,
                                                   int size, int per_node) {
  std::vector<std::vector<std::string>> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back({"HVD_RANK=" + std::to_string(rank), "HVD_SIZE=" + std::to_string(size),
                     "HVD_STORE=" + server.loopback_address(), "HVD_JOB_KEY=" + key.to_hex(),
                     "HVD_VIRTUAL_NODE=" + std::to_string(rank / per_node)});
  }
  return ranks;
}

TEST(BootstrapProcesses, FourRanksMeetAtALaunchersStore) {
  const JobKey key = JobKey::random();
  const auto server = TcpStoreServer::start(key);
  ASSERT_TRUE(server.is_ok());
  for (const Outcome& outcome : run(hvdrun_ranks(*server.value(), key, 4, 4))) {
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    EXPECT_NE(outcome.output.find("/4 host="), std::string::npos) << outcome.output;
  }
}

TEST(BootstrapProcesses, FourRanksOnTwoVirtualNodesAreLinked) {
  const JobKey key = JobKey::random();
  const auto server = TcpStoreServer::start(key);
  ASSERT_TRUE(server.is_ok());
  for (const Outcome& outcome : run(hvdrun_ranks(*server.value(), key, 4, 2))) {
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    EXPECT_NE(outcome.output.find("lanes=2 links=1"), std::string::npos) << outcome.output;
  }
}

TEST(BootstrapProcesses, FourRanksMeetByAFile) {
  std::string folder = testing::TempDir() + "/hvd-process-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  std::vector<std::vector<std::string>> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    const std::string number = std::to_string(rank);
    ranks.push_back({"SLURM_JOB_ID=7", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=4",
                     "SLURM_PROCID=" + number, "SLURM_LOCALID=" + number, "SLURM_CLUSTER_NAME=lab",
                     "HVD_RENDEZVOUS_DIR=" + folder});
  }
  for (const Outcome& outcome : run(ranks)) {
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    EXPECT_NE(outcome.output.find("slurm (rendezvous file)"), std::string::npos) << outcome.output;
  }
  // Empty again: the file is gone.
  EXPECT_EQ(::rmdir(folder.c_str()), 0);
}

/// No wait of these tests may come to the end of this.
constexpr std::string_view kLongStart = "HVD_START_TIMEOUT_SECONDS=600";

TEST(BootstrapProcesses, ARankWithTooFewDescriptorsIsEverybodysCauseAtOnce) {
  const JobKey key = JobKey::random();
  const auto server = TcpStoreServer::start(key);
  ASSERT_TRUE(server.is_ok());
  auto ranks = hvdrun_ranks(*server.value(), key, 4, 2);
  for (auto& variables : ranks) variables.emplace_back(kLongStart);
  for (const Outcome& outcome : run(ranks, "ulimit -n 40")) {
    EXPECT_NE(outcome.status, 0);
    EXPECT_NE(outcome.output.find("rank 3 on "), std::string::npos) << outcome.output;
    EXPECT_NE(outcome.output.find("of 40 files are open"), std::string::npos) << outcome.output;
  }
  // The same store serves the next try.
  for (const Outcome& outcome : run(hvdrun_ranks(*server.value(), key, 4, 2))) {
    EXPECT_EQ(outcome.status, 0) << outcome.output;
  }
}

TEST(BootstrapProcesses, ASoftLimitThatIsTooLowIsRaised) {
  const JobKey key = JobKey::random();
  const auto server = TcpStoreServer::start(key);
  ASSERT_TRUE(server.is_ok());
  for (const Outcome& outcome : run(hvdrun_ranks(*server.value(), key, 4, 2), "ulimit -S -n 40")) {
    EXPECT_EQ(outcome.status, 0) << outcome.output;
  }
}

/// A store in a process that may open only a few files; ends with the object.
class PoorServer {
 public:
  explicit PoorServer(const JobKey& key) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    pid_ = ::fork();
    if (pid_ == 0) serve(key, ends[1]);
    ::close(ends[1]);
    const UniqueFd reads(ends[0]);
    std::uint16_t port = 0;
    EXPECT_EQ(::read(reads.get(), &port, sizeof port), static_cast<ssize_t>(sizeof port));
    address_ = "127.0.0.1:" + std::to_string(port);
  }
  PoorServer(const PoorServer&) = delete;
  PoorServer& operator=(const PoorServer&) = delete;
  ~PoorServer() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  const std::string& address() const { return address_; }

 private:
  [[noreturn]] static void serve(const JobKey& key, int writes) {
    const auto server = TcpStoreServer::start(key);
    const std::size_t few = descriptor_limit().open + 4;
    const rlimit limit{.rlim_cur = few, .rlim_max = few};
    if (!server.is_ok() || ::setrlimit(RLIMIT_NOFILE, &limit) != 0) ::_exit(1);
    const std::uint16_t port = server.value()->port();
    if (::write(writes, &port, sizeof port) != static_cast<ssize_t>(sizeof port)) ::_exit(1);
    for (;;) ::pause();
  }

  pid_t pid_ = -1;
  std::string address_;
};

TEST(BootstrapProcesses, AStoreWithTooFewDescriptorsTellsEveryRankAtOnce) {
  const JobKey key = JobKey::random();
  const PoorServer server(key);
  std::vector<std::vector<std::string>> ranks;
  for (int rank = 0; rank < 8; ++rank) {
    ranks.push_back({"HVD_RANK=" + std::to_string(rank), "HVD_SIZE=8",
                     "HVD_STORE=" + server.address(), "HVD_JOB_KEY=" + key.to_hex(),
                     std::string(kLongStart)});
  }
  for (const Outcome& outcome : run(ranks)) {
    EXPECT_NE(outcome.status, 0);
    EXPECT_NE(outcome.output.find("cannot take more than"), std::string::npos) << outcome.output;
    EXPECT_NE(outcome.output.find("files are open"), std::string::npos) << outcome.output;
  }
}

}  // namespace
}  // namespace hvd

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc < 2) return 2;
  hvd::probe_path = argv[1];
  return RUN_ALL_TESTS();
}
