// SPDX-License-Identifier: Apache-2.0
// Real processes that find each other: argv[1] is bootstrap_probe.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <vector>

#include "base/deadline.h"
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
  explicit Rank(std::vector<std::string> variables) {
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
    std::array<char*, 2> arguments = {probe_path.data(), nullptr};
    EXPECT_EQ(::posix_spawn(&pid_, probe_path.c_str(), &actions, nullptr, arguments.data(),
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

std::vector<Outcome> run(const std::vector<std::vector<std::string>>& ranks) {
  std::vector<std::unique_ptr<Rank>> children;
  for (const auto& variables : ranks) children.push_back(std::make_unique<Rank>(variables));
  const Deadline deadline = Deadline::after(std::chrono::seconds(30));
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

}  // namespace
}  // namespace hvd

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc < 2) return 2;
  hvd::probe_path = argv[1];
  return RUN_ALL_TESTS();
}
