// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/bootstrap.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "bootstrap/peer_record.h"
#include "bootstrap/tcp_store_server.h"
#include "transport/socket_io.h"

namespace hvd {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

Variables rank_of(int rank, int size) {
  return {{"HVD_RANK", std::to_string(rank)}, {"HVD_SIZE", std::to_string(size)}};
}

/// Every rank bootstraps on a thread of its own; `ranks` come, of a world of their number.
std::vector<Result<Wiring>> start_all(const std::vector<Variables>& ranks,
                                      std::chrono::milliseconds time) {
  std::vector<Result<Wiring>> results;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    results.emplace_back(Status(Code::kAborted, "not run"));
  }
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i] {
      const Environment environment(ranks[i]);
      results[i] = bootstrap(
          environment,
          {.deadline = Deadline::after(time),
           .memory_bytes = [](int local) { return static_cast<std::size_t>(local) * 100; },
           .settings = MeetingSettings::from(environment).value()});
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

struct HvdrunWorld {
  JobKey key = JobKey::random();
  std::unique_ptr<TcpStoreServer> server = TcpStoreServer::start(key).value();
  Variables rank(int rank, int size) const {
    Variables variables = rank_of(rank, size);
    variables["HVD_STORE"] = server->loopback_address();
    variables["HVD_JOB_KEY"] = key.to_hex();
    return variables;
  }
};

void cross(Link& from, Link& to) {
  const Bytes sent(3, std::byte{5});
  ASSERT_EQ(from.send_some(sent).value_or(0), 3U);
  Bytes got(3);
  ASSERT_TRUE(receive_all(to.fd(), got, Deadline::after(std::chrono::seconds(5)), "test").is_ok());
  EXPECT_EQ(got, sent);
}

TEST(Bootstrap, AProcessOfNoLauncherIsAWorldOfOne) {
  const auto wiring = bootstrap(Environment(), {});
  ASSERT_TRUE(wiring.is_ok()) << wiring.status().message();
  EXPECT_EQ(wiring.value().size, 1);
  EXPECT_EQ(wiring.value().bootstrap, "single");
}

TEST(Bootstrap, ABatchShellIsNoRank) {
  const auto wiring =
      bootstrap(Environment(Variables{{"SLURM_JOB_ID", "17"}, {"SLURM_PROCID", "0"}}), {});
  EXPECT_EQ(wiring.status().code(), Code::kInvalidArgument);
  EXPECT_NE(wiring.status().message().find("srun hvdrun python3 train.py"), std::string::npos);
}

TEST(Bootstrap, NeverStartsNSingletons) {
  const auto wiring = bootstrap(Environment(Variables{{"PMI_SIZE", "4"}}), {});
  EXPECT_EQ(wiring.status().code(), Code::kInvalidArgument);
  EXPECT_NE(wiring.status().message().find("PMI_SIZE=4"), std::string::npos);
}

TEST(Bootstrap, RanksOfOneHostShareMemory) {
  const HvdrunWorld world;
  auto results =
      start_all({world.rank(0, 3), world.rank(1, 3), world.rank(2, 3)}, std::chrono::seconds(10));
  for (auto& result : results) ASSERT_TRUE(result.is_ok()) << result.status().message();
  EXPECT_EQ(results[2].value().node.local_size, 3);
  EXPECT_EQ(results[0].value().bootstrap, "hvdrun");
  results[0].value().node.memory[299] = std::byte{1};
  EXPECT_EQ(results[2].value().node.memory[299], std::byte{1});
  EXPECT_EQ(results[1].value().lanes, 0);
}

TEST(Bootstrap, VirtualNodesAreJoinedByLinks) {
  const HvdrunWorld world;
  std::vector<Variables> ranks;
  for (int rank = 0; rank < 5; ++rank) {
    ranks.push_back(world.rank(rank, 5));
    ranks.back()["HVD_VIRTUAL_NODE"] = std::to_string(rank / 2);
  }
  auto results = start_all(ranks, std::chrono::seconds(10));
  for (auto& result : results) ASSERT_TRUE(result.is_ok()) << result.status().message();
  EXPECT_EQ(results[4].value().node.local_size, 1);
  EXPECT_EQ(results[4].value().lanes, 1);
  EXPECT_EQ(results[0].value().children.size(), 2U);
  EXPECT_EQ(results[1].value().parent, nullptr);
  cross(*results[0].value().children[1], *results[4].value().parent);
  cross(*results[2].value().lane[2], *results[4].value().lane[1]);
  EXPECT_NE(results[3].value().peers[2].host.find("/node1"), std::string::npos);
}

TEST(Bootstrap, EveryRankHearsOfAGpuChosenTwice) {
  const HvdrunWorld world;
  std::vector<Variables> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.push_back(world.rank(rank, 3));
    ranks.back()["HVD_GPU_ID"] = rank == 1 ? "0000:07:00.0" : "0000:b2:00.0";
    ranks.back()["HVD_VIRTUAL_NODE"] = std::to_string(rank);  // One machine all the same.
  }
  for (const auto& result : start_all(ranks, std::chrono::seconds(10))) {
    EXPECT_EQ(result.status().code(), Code::kInvalidArgument);
    const std::string message = result.status().message();
    EXPECT_NE(message.find("ranks 0 and 2 on"), std::string::npos) << message;
    EXPECT_NE(message.find("GPU 0000:b2:00.0: "), std::string::npos) << message;
    EXPECT_NE(message.find("--gpus-per-node=3"), std::string::npos) << message;
    EXPECT_NE(message.find("HVD_SHARE_GPU=1"), std::string::npos) << message;
  }
}

TEST(PeerRecords, ARankOfAnotherHostIsRefusedWhereAllWereToBeLocal) {
  std::vector<PeerRecord> records(3);
  for (PeerRecord& record : records) {
    record.host = "jz1";
    record.machine = "boot-a/40/1000";
  }
  records[1].machine = "boot-a/41/1000";  // A container with a network of its own.
  EXPECT_TRUE(check_layout(records, 0, 3).is_ok());
  records[2].host = "jz2";
  records[2].machine = "boot-b/40/1000";
  EXPECT_TRUE(check_layout(records, 0, 2).is_ok());
  EXPECT_TRUE(check_layout(records, 0, -1).is_ok());
  for (const int rank : {0, 2}) {
    const Status refused = check_layout(records, rank, 3);
    EXPECT_EQ(refused.code(), Code::kInvalidArgument);
    EXPECT_NE(refused.message().find("jz1"), std::string::npos) << refused.message();
    EXPECT_NE(refused.message().find("jz2"), std::string::npos) << refused.message();
  }
}

TEST(Bootstrap, RanksThatShareAGpuOrDoNotKnowItStart) {
  const HvdrunWorld world;
  std::vector<Variables> ranks;
  for (int rank = 0; rank < 4; ++rank) ranks.push_back(world.rank(rank, 4));
  ranks[0]["HVD_GPU_ID"] = "GPU-aa";
  ranks[1]["HVD_GPU_ID"] = "GPU-aa";
  ranks[1]["HVD_SHARE_GPU"] = "1";
  ranks[2]["HVD_GPU_ID"] = "";
  for (const auto& result : start_all(ranks, std::chrono::seconds(10))) {
    EXPECT_TRUE(result.is_ok()) << result.status().message();
  }
}

TEST(Bootstrap, TheSameStoreServesASecondStart) {
  const HvdrunWorld world;
  for (int start = 0; start < 2; ++start) {
    const auto results = start_all({world.rank(0, 2), world.rank(1, 2)}, std::chrono::seconds(10));
    for (const auto& result : results) ASSERT_TRUE(result.is_ok()) << result.status().message();
  }
}

TEST(Bootstrap, NamesTheRankThatDidNotCome) {
  const HvdrunWorld world;
  const auto results =
      start_all({world.rank(0, 3), world.rank(2, 3)}, std::chrono::milliseconds(200));
  for (const auto& result : results) {
    EXPECT_EQ(result.status().code(), Code::kTimeout);
    EXPECT_NE(result.status().message().find("rank 1 of 3 did not come"), std::string::npos)
        << result.status().message();
  }
}

Variables torchrun_rank(int rank, int size, const std::string& port) {
  return {{"RANK", std::to_string(rank)},
          {"WORLD_SIZE", std::to_string(size)},
          {"LOCAL_RANK", std::to_string(rank)},
          {"LOCAL_WORLD_SIZE", std::to_string(size)},
          {"TORCHELASTIC_RUN_ID", "none"},
          {"MASTER_ADDR", "localhost"},
          {"MASTER_PORT", port},
          {"HVD_RENDEZVOUS_DIR", testing::TempDir() + "/hvd-torchrun-test"}};
}

/// A start for which one rank comes too late, then two for which all come in time.
void check_that_the_next_try_works(const std::vector<Variables>& ranks) {
  const std::vector<Variables> early(ranks.begin(), ranks.end() - 1);
  for (const auto& result : start_all(early, std::chrono::milliseconds(200))) {
    EXPECT_EQ(result.status().code(), Code::kTimeout);
  }
  const auto late = start_all({ranks.back()}, std::chrono::milliseconds(200));
  EXPECT_EQ(late[0].status().code(), Code::kTimeout);
  for (int time = 0; time < 2; ++time) {
    for (const auto& result : start_all(ranks, std::chrono::seconds(60))) {
      EXPECT_TRUE(result.is_ok()) << result.status().message();
    }
  }
}

TEST(Bootstrap, ATryAfterOneThatTimedOutWorksAtALaunchersStore) {
  const HvdrunWorld world;
  check_that_the_next_try_works({world.rank(0, 3), world.rank(1, 3), world.rank(2, 3)});
}

TEST(Bootstrap, ATryAfterOneThatTimedOutWorksByAFile) {
  check_that_the_next_try_works(
      {torchrun_rank(0, 3, "again"), torchrun_rank(1, 3, "again"), torchrun_rank(2, 3, "again")});
}

/// Starts ranks of which one asks for more memory than there is: it fails, the others would wait.
std::vector<Result<Wiring>> start_with_a_greedy_rank(const std::vector<Variables>& ranks,
                                                     std::size_t greedy) {
  std::vector<Result<Wiring>> results;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    results.emplace_back(Status(Code::kAborted, "not run"));
  }
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i] {
      results[i] = bootstrap(
          Environment(ranks[i]),
          {.deadline = Deadline::after(std::chrono::minutes(5)), .memory_bytes = [i, greedy](int) {
             return i == greedy ? std::size_t{1} << 50 : std::size_t{4096};
           }});
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

TEST(Bootstrap, AFailedSegmentIsEverybodysCauseAtOnce) {
  const HvdrunWorld world;
  std::vector<Variables> ranks;
  for (int rank = 0; rank < 6; ++rank) {
    ranks.push_back(world.rank(rank, 6));
    ranks.back()["HVD_VIRTUAL_NODE"] = std::to_string(rank / 2);
  }
  const auto begin = Clock::now();
  const auto results = start_with_a_greedy_rank(ranks, 2);
  // Far less than the five minutes of the start.
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(90));
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    const std::string message = results[rank].status().message();
    EXPECT_EQ(results[rank].status().code(), Code::kSystem) << rank << ": " << message;
    EXPECT_NE(message.find("MiB are available on this host"), std::string::npos) << message;
    const bool named = message.find("rank 2 on ") != std::string::npos;
    EXPECT_TRUE(named) << message;
  }
  // And the next try works at the same store.
  for (const auto& result : start_all(ranks, std::chrono::seconds(60))) {
    EXPECT_TRUE(result.is_ok()) << result.status().message();
  }
}

TEST(Bootstrap, AWrongSettingOfOneRankIsEverybodysCauseAtOnce) {
  const HvdrunWorld world;
  std::vector<Variables> ranks = {world.rank(0, 3), world.rank(1, 3), world.rank(2, 3)};
  ranks[1]["HVD_INTERFACE"] = "hsn9";
  const auto begin = Clock::now();
  for (const auto& result : start_all(ranks, std::chrono::minutes(5))) {
    const std::string message = result.status().message();
    EXPECT_NE(message.find("HVD_INTERFACE=hsn9"), std::string::npos) << message;
    EXPECT_NE(message.find("rank 1 on "), std::string::npos) << message;
  }
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(90));
}

TEST(Bootstrap, MeetsByAFileUnderTorchrun) {
  std::vector<Variables> ranks;
  for (int rank = 0; rank < 4; ++rank) ranks.push_back(torchrun_rank(rank, 4, "29500"));
  const auto results = start_all(ranks, std::chrono::seconds(10));
  for (const auto& result : results) ASSERT_TRUE(result.is_ok()) << result.status().message();
  EXPECT_EQ(results[3].value().bootstrap, "torchrun (rendezvous file)");
  EXPECT_NE(results[3].value().bootstrap_reason.find("slurm: "), std::string::npos);
}

TEST(Bootstrap, SaysWhatIsWrongWithTheKeyWithoutRepeatingIt) {
  Variables variables = rank_of(0, 2);
  variables["HVD_STORE"] = "127.0.0.1:1";
  variables["HVD_JOB_KEY"] = "deadbeef";
  const auto wiring = bootstrap(Environment(variables), {});
  EXPECT_EQ(wiring.status().code(), Code::kInvalidArgument);
  EXPECT_EQ(wiring.status().message().find("deadbeef"), std::string::npos);
  EXPECT_NE(wiring.status().message().find("HVD_JOB_KEY"), std::string::npos);
}

}  // namespace
}  // namespace hvd
