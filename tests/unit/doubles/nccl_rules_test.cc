// SPDX-License-Identifier: Apache-2.0
// What the NCCL double refuses, orders of tests, captures, registrations and RAS.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <sys/socket.h>

#include <atomic>

#include "base/unique_fd.h"
#include "unit/doubles/nccl_ranks.h"

namespace {

using testing::HasSubstr;

ncclResult_t add(const NcclRank& mine, std::vector<float>& values) {
  return ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat32, ncclSum, mine.comm,
                       mine.stream);
}

/// For bodies whose communicator has broken.
void abort_comm(NcclRank& mine) {
  EXPECT_EQ(ncclCommAbort(mine.comm), ncclSuccess);
  mine.comm = nullptr;
}

TEST_F(NcclDouble, CallsOfANonBlockingCommunicatorAreInProgressFirst) {
  run_nccl_ranks(
      2,
      [](const NcclRank& mine) {
        std::vector<float> values(3, 1.0F);
        for (int step = 0; step < 20; ++step) {
          ASSERT_EQ(add(mine, values), ncclInProgress);
          ASSERT_EQ(settle(mine.comm), ncclSuccess);
        }
        ASSERT_TRUE(mine.stream->wait());
        EXPECT_EQ(values[2], 1048576.0F);
        EXPECT_EQ(ncclCommFinalize(mine.comm), ncclInProgress);
        EXPECT_EQ(settle(mine.comm), ncclSuccess);
      },
      false);
}

TEST_F(NcclDouble, RefusesACallBeforeTheOneBeforeHasEnded) {
  run_nccl_ranks(
      2,
      [](const NcclRank& mine) {
        std::vector<float> values(3, 1.0F);
        ASSERT_EQ(add(mine, values), ncclInProgress);
        EXPECT_EQ(add(mine, values), ncclInvalidArgument);
        ASSERT_EQ(settle(mine.comm), ncclSuccess);
        ASSERT_TRUE(mine.stream->wait());
      },
      false);
  EXPECT_THAT(complaint(), HasSubstr("ncclAllReduce: before the previous call"));
}

TEST_F(NcclDouble, AddsFloat8OnSm90AndFrom224OnOnly) {
  const auto refuses = [](int architecture, int version) {
    architecture_of_gpus = architecture;
    double_nccl_set_version(version);
    run_nccl_ranks(2, [](NcclRank& mine) {
      std::byte code{};
      EXPECT_EQ(ncclBroadcast(&code, &code, 1, ncclFloat8e4m3, 0, mine.comm, mine.stream),
                ncclSuccess);
      EXPECT_EQ(ncclAllReduce(&code, &code, 1, ncclFloat8e4m3, ncclSum, mine.comm, mine.stream),
                ncclInvalidArgument);
      ASSERT_TRUE(mine.stream->wait());
    });
    architecture_of_gpus = 90;
    EXPECT_THAT(complaint(), HasSubstr("8-bit floats are added from 2.24 and sm_90 on"));
  };
  refuses(80, 22809);
  refuses(90, 22304);
}

TEST_F(NcclDouble, TellsOperationsThatDiffer) {
  run_nccl_ranks(2, [](NcclRank& mine) {
    std::vector<float> values(5, 1.0F);
    std::vector<float> all(10);
    if (mine.rank == 0) {
      ASSERT_EQ(add(mine, values), ncclSuccess);
    } else {
      ASSERT_EQ(ncclAllGather(values.data(), all.data(), 5, ncclFloat32, mine.comm, mine.stream),
                ncclSuccess);
    }
    ncclResult_t state = ncclSuccess;
    while (state == ncclSuccess) ASSERT_EQ(ncclCommGetAsyncError(mine.comm, &state), ncclSuccess);
    EXPECT_EQ(state, ncclInvalidUsage);
    EXPECT_FALSE(mine.stream->wait(std::chrono::milliseconds(5))) << "a kernel ended by itself";
    EXPECT_THAT(ncclGetLastError(mine.comm), HasSubstr("AllGather of 5 float32"));
    abort_comm(mine);
    EXPECT_TRUE(mine.stream->wait());
  });
  EXPECT_THAT(complaint(), HasSubstr(" called AllReduce of 5 float32 (sum)"));
}

TEST_F(NcclDouble, TellsSizesThatDifferBetweenSendAndReceive) {
  run_nccl_ranks(2, [](NcclRank& mine) {
    std::vector<float> values(5, 1.0F);
    if (mine.rank == 0) {
      ASSERT_EQ(ncclSend(values.data(), 5, ncclFloat32, 1, mine.comm, mine.stream), ncclSuccess);
    } else {
      ASSERT_EQ(ncclRecv(values.data(), 4, ncclFloat32, 0, mine.comm, mine.stream), ncclSuccess);
    }
    while (settle(mine.comm) == ncclSuccess) std::this_thread::yield();
    abort_comm(mine);
    EXPECT_TRUE(mine.stream->wait());
  });
  EXPECT_EQ(complaint(),
            "rank 1 called Recv of 4 float32 from rank 0 where rank 0 called Send of 5 float32 to "
            "rank 1");
}

/// Two ranks whose communicator cannot be made.
void expect_no_comm(int second_gpu, int second_version, const std::string& why) {
  const ncclUniqueId id = new_id();
  use_gpu(0);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t first = nullptr;
  ASSERT_EQ(ncclCommInitRankConfig(&first, 2, id, 0, &config), ncclInProgress);
  double_nccl_set_version(second_version);
  use_gpu(second_gpu);
  ncclComm_t second = nullptr;
  ASSERT_EQ(ncclCommInitRankConfig(&second, 2, id, 1, &config), ncclInProgress);
  EXPECT_EQ(settle(first), ncclInvalidUsage);
  EXPECT_EQ(settle(second), ncclInvalidUsage);
  EXPECT_THAT(ncclGetLastError(first), HasSubstr(why));
  EXPECT_EQ(ncclCommAbort(first), ncclSuccess);
  EXPECT_EQ(ncclCommAbort(second), ncclSuccess);
}

TEST_F(NcclDouble, RefusesTwoRanksOnOneGpu) {
  expect_no_comm(0, NCCL_VERSION_CODE, "Duplicate GPU detected");
}

TEST_F(NcclDouble, RefusesRanksOfDifferentVersions) {
  expect_no_comm(1, 21805, "Mismatched NCCL version");
}

TEST_F(NcclDouble, RefusesAThreadWithoutGpu) {
  use_gpu(-1);
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, 1, new_id(), 0), ncclUnhandledCudaError);
  EXPECT_THAT(complaint(), HasSubstr("no GPU"));
}

TEST_F(NcclDouble, RefusesTwoThreadsAtOnce) {
  run_nccl_ranks(2, [](const NcclRank& mine) {
    static std::atomic<bool> refused;
    if (mine.rank == 0) refused = false;
    void* memory = nullptr;
    ASSERT_EQ(ncclMemAlloc(&memory, 64), ncclSuccess);
    if (mine.rank == 1) {
      while (!refused) std::this_thread::yield();  // rank 0 waits for the window of rank 1
    }
    std::thread other([&] {
      if (mine.rank == 1) return;
      int count = 0;
      while (ncclCommCount(mine.comm, &count) == ncclSuccess) std::this_thread::yield();
      refused = true;
    });
    ncclWindow_t window = nullptr;
    ASSERT_EQ(ncclCommWindowRegister(mine.comm, memory, 64, &window, 0), ncclSuccess);
    other.join();
    EXPECT_EQ(ncclCommWindowDeregister(mine.comm, window), ncclSuccess);
    EXPECT_EQ(ncclMemFree(memory), ncclSuccess);
  });
  EXPECT_THAT(complaint(), HasSubstr("two threads"));
}

TEST_F(NcclDouble, WantsWindowsInOnePlaceOnAllRanks) {
  run_nccl_ranks(2, [](NcclRank& mine) {
    void* memory[2] = {};
    ncclWindow_t windows[2] = {};
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(ncclMemAlloc(&memory[i], 64), ncclSuccess);
      // One rank has given back its first window, the other has not.
      if (i == 1 && mine.rank == 0) {
        EXPECT_EQ(ncclCommWindowDeregister(mine.comm, windows[0]), ncclSuccess);
      }
      const ncclResult_t result = ncclCommWindowRegister(mine.comm, memory[i], 64, &windows[i], 0);
      EXPECT_EQ(result == ncclSuccess, i == 0);
    }
    abort_comm(mine);
    for (void* const one : memory) EXPECT_EQ(ncclMemFree(one), ncclSuccess);
  });
  EXPECT_THAT(complaint(), HasSubstr("WindowRegister of 64 bytes in place"));
}

TEST_F(NcclDouble, WantsMemoryRegisteredOnAllRanksOrNone) {
  run_nccl_ranks(2, [](NcclRank& mine) {
    std::vector<float> values(3, 1.0F);
    void* registration = nullptr;
    if (mine.rank == 0) {
      ASSERT_EQ(ncclCommRegister(mine.comm, values.data(), 12, &registration), ncclSuccess);
    }
    EXPECT_EQ(add(mine, values), ncclSuccess);
    ncclResult_t state = ncclSuccess;
    while (state == ncclSuccess) EXPECT_EQ(ncclCommGetAsyncError(mine.comm, &state), ncclSuccess);
    EXPECT_EQ(state, ncclInvalidUsage);
    abort_comm(mine);
    EXPECT_TRUE(mine.stream->wait());
  });
  EXPECT_THAT(complaint(), HasSubstr("in registered memory"));
}

TEST_F(NcclDouble, RefusesWhatComesAfterTheEnd) {
  run_nccl_ranks(1, [](NcclRank& mine) {
    std::vector<float> values(1);
    const ncclComm_t gone = mine.comm;
    abort_comm(mine);
    mine.comm = gone;
    EXPECT_EQ(add(mine, values), ncclInvalidArgument);
    EXPECT_EQ(ncclCommAbort(gone), ncclInvalidArgument);
    mine.comm = nullptr;
  });
  EXPECT_THAT(complaint(), HasSubstr("no such communicator"));
}

TEST_F(NcclDouble, RefusesMemoryThatOverlaps) {
  run_nccl_ranks(1, [](const NcclRank& mine) {
    std::vector<float> values(8);
    EXPECT_EQ(
        ncclAllReduce(&values[0], &values[2], 4, ncclFloat32, ncclSum, mine.comm, mine.stream),
        ncclInvalidArgument);
  });
  EXPECT_THAT(complaint(), HasSubstr("overlap"));
}

TEST_F(NcclDouble, FailsTheCallThatATestOrders) {
  double_nccl_fail("ncclAllReduce", 2, ncclSystemError, 1);
  run_nccl_ranks(2, [](NcclRank& mine) {
    std::vector<float> values(3, 1.0F);
    EXPECT_EQ(add(mine, values), ncclSuccess);
    EXPECT_TRUE(mine.stream->wait());
    if (mine.rank == 1) {
      EXPECT_EQ(add(mine, values), ncclSystemError);
    }
  });
  EXPECT_EQ(double_nccl_calls("ncclAllReduce"), 3);
  EXPECT_EQ(double_nccl_operations(-1), 2);
}

TEST_F(NcclDouble, DropsAGroupWithAnError) {
  run_nccl_ranks(1, [](NcclRank& mine) {
    double_nccl_fail("ncclAllReduce", 2, ncclSystemError, -1);
    std::vector<float> values(3, 1.0F);
    ncclGroupStart();
    EXPECT_EQ(add(mine, values), ncclSuccess);
    EXPECT_EQ(add(mine, values), ncclSystemError);
    EXPECT_EQ(ncclGroupEnd(), ncclSystemError);
  });
  EXPECT_EQ(double_nccl_operations(0), 0);
}

TEST_F(NcclDouble, HangsUntilTheAbort) {
  double_nccl_hang(1, 2);
  run_nccl_ranks(2, [](NcclRank& mine) {
    std::vector<float> values(3, 1.0F);
    EXPECT_EQ(add(mine, values), ncclSuccess);
    EXPECT_TRUE(mine.stream->wait());
    EXPECT_EQ(add(mine, values), ncclSuccess);
    EXPECT_FALSE(mine.stream->wait(std::chrono::milliseconds(5)));
    ncclResult_t state = ncclInProgress;
    EXPECT_EQ(ncclCommGetAsyncError(mine.comm, &state), ncclSuccess);
    EXPECT_EQ(state, ncclSuccess);
    double_nccl_silent_deaths(1);
    abort_comm(mine);
    EXPECT_TRUE(mine.stream->wait());
    EXPECT_EQ(values[0], 2.0F);
  });
}

TEST_F(NcclDouble, LetsHostsAgreeWhileStreamsAreBehind) {
  double_nccl_hang(1, 1);
  double_nccl_silent_deaths(1);
  run_nccl_ranks(2, [](NcclRank& mine) {
    std::vector<float> values(3, 1.0F);
    EXPECT_EQ(add(mine, values), ncclSuccess);
    void* memory = nullptr;
    ncclWindow_t window = nullptr;
    ASSERT_EQ(ncclMemAlloc(&memory, 64), ncclSuccess);
    EXPECT_EQ(ncclCommWindowRegister(mine.comm, memory, 64, &window, 0), ncclSuccess);
    EXPECT_EQ(ncclCommWindowDeregister(mine.comm, window), ncclSuccess);
    abort_comm(mine);
    EXPECT_TRUE(mine.stream->wait());
    EXPECT_EQ(ncclMemFree(memory), ncclSuccess);
  });
}

TEST_F(NcclDouble, GivesTheAsyncErrorThatATestOrders) {
  double_nccl_async_error(0, 1, ncclInternalError);
  double_nccl_silent_deaths(1);
  run_nccl_ranks(2, [](NcclRank& mine) {
    std::vector<float> values(3, 1.0F);
    EXPECT_EQ(add(mine, values), ncclSuccess);
    if (mine.rank == 0) {
      ncclResult_t state = ncclSuccess;
      while (state == ncclSuccess) EXPECT_EQ(ncclCommGetAsyncError(mine.comm, &state), ncclSuccess);
      EXPECT_EQ(state, ncclInternalError);
    }
    abort_comm(mine);
    EXPECT_TRUE(mine.stream->wait());
  });
}

TEST_F(NcclDouble, GoesInTheOrderOfLaunchesOverTwoStreams) {
  double_nccl_delay(7, 2000);
  run_nccl_ranks(3, [](NcclRank& mine) {
    CUstream_st other;
    std::vector<float> values(3, 1.0F);
    std::vector<float> large(1000, 1.0F);
    for (int step = 0; step < 10; ++step) {
      EXPECT_EQ(add(mine, values), ncclSuccess);
      EXPECT_EQ(
          ncclAllReduce(large.data(), large.data(), 1000, ncclFloat32, ncclMax, mine.comm, &other),
          ncclSuccess);
    }
    EXPECT_TRUE(mine.stream->wait());
    EXPECT_TRUE(other.wait());
    EXPECT_EQ(values[0], 59049.0F);
  });
}

TEST_F(NcclDouble, RunsWhatWasCapturedAtEveryReplay) {
  run_nccl_ranks(2, [](NcclRank& mine) {
    std::vector<float> values(3, 1.0F);
    mine.stream->begin_capture();
    EXPECT_EQ(add(mine, values), ncclSuccess);
    const auto graph = mine.stream->end_capture();
    EXPECT_EQ(graph.size(), 1U);
    EXPECT_EQ(add(mine, values), ncclSuccess);  // 2
    for (int replay = 0; replay < 3; ++replay) {
      for (const auto& work : graph) mine.stream->put(work);
    }
    EXPECT_TRUE(mine.stream->wait());
    EXPECT_EQ(values[0], 16.0F);
  });
  EXPECT_EQ(double_nccl_operations(0), 4);
}

TEST_F(NcclDouble, KnowsWhatIsRegistered) {
  run_nccl_ranks(1, [](const NcclRank& mine) {
    void* memory = nullptr;
    void* handle = nullptr;
    ASSERT_EQ(ncclMemAlloc(&memory, 100), ncclSuccess);
    ASSERT_EQ(ncclCommRegister(mine.comm, memory, 100, &handle), ncclSuccess);
    EXPECT_EQ(double_nccl_alive(), 3);
    EXPECT_EQ(ncclMemFree(memory), ncclSuccess);
    EXPECT_EQ(ncclCommDeregister(mine.comm, handle), ncclSuccess);
  });
  EXPECT_THAT(complaint(), HasSubstr("memory that is registered"));
}

TEST_F(NcclDouble, WantsMemoryDeregisteredBeforeTheEndAndNothingAfterwards) {
  run_nccl_ranks(1, [](const NcclRank& mine) {
    std::vector<float> values(3, 1.0F);
    void* memory = nullptr;
    void* handle = nullptr;
    ASSERT_EQ(ncclMemAlloc(&memory, 100), ncclSuccess);
    ASSERT_EQ(ncclCommRegister(mine.comm, memory, 100, &handle), ncclSuccess);
    EXPECT_EQ(ncclCommFinalize(mine.comm), ncclInvalidArgument);
    EXPECT_THAT(complaint(), HasSubstr("memory is registered still"));
    EXPECT_EQ(ncclCommDeregister(mine.comm, handle), ncclSuccess);
    EXPECT_EQ(ncclMemFree(memory), ncclSuccess);
    EXPECT_EQ(ncclCommFinalize(mine.comm), ncclSuccess);
    EXPECT_EQ(add(mine, values), ncclInvalidArgument);
  });
  EXPECT_THAT(complaint(), HasSubstr("ncclAllReduce: the communicator is finalized"));
}

TEST_F(NcclDouble, BlocksACallForAWhileOrUntilItIsReleased) {
  double_nccl_block("ncclGetVersion", 2, 0, -1);
  double_nccl_block("ncclGetVersion", 3, 1, -1);
  int version = 0;
  EXPECT_EQ(ncclGetVersion(&version), ncclSuccess);
  std::atomic<bool> has_ended{false};
  std::thread other([&] {
    int mine = 0;
    EXPECT_EQ(ncclGetVersion(&mine), ncclSuccess);
    has_ended = true;
  });
  while (double_nccl_calls("ncclGetVersion") < 2) std::this_thread::yield();
  EXPECT_FALSE(has_ended);
  EXPECT_EQ(ncclGetVersion(&version), ncclSuccess) << "the third call ends by itself";
  double_nccl_release();
  other.join();
}

std::string ask_ras(int port, const std::string& question) {
  const hvd::UniqueFd socket(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_GT(send(socket.get(), question.data(), question.size(), MSG_NOSIGNAL), 0);
  std::string answer;
  char chunk[256];
  for (ssize_t got = 0; (got = recv(socket.get(), chunk, sizeof(chunk), 0)) > 0;) {
    answer.append(chunk, static_cast<std::size_t>(got));
  }
  return answer;
}

TEST_F(NcclDouble, RasTellsWhoHasNotArrived) {
  const int port = double_nccl_ras("127.0.0.1:0");
  ASSERT_GT(port, 0);
  const std::string question = "CLIENT PROTOCOL 2\nTIMEOUT 5\nVERBOSE STATUS\n";
  EXPECT_THAT(ask_ras(port, question), HasSubstr("SERVER PROTOCOL 2\nOK\nNCCL version "));
  double_nccl_hang(1, 1);
  double_nccl_silent_deaths(1);
  std::atomic<bool> seen = false;
  run_nccl_ranks(2, [&](NcclRank& mine) {
    std::vector<float> values(3, 1.0F);
    EXPECT_EQ(add(mine, values), ncclSuccess);
    while (mine.rank == 0 && !seen) {
      seen = ask_ras(port, question).find("Rank 1 has not arrived") != std::string::npos;
    }
    while (!seen) std::this_thread::yield();
    abort_comm(mine);
    EXPECT_TRUE(mine.stream->wait());
  });
  EXPECT_EQ(ask_ras(port, "HELP\n"), "ERROR: Unknown command\n");
}

}  // namespace
