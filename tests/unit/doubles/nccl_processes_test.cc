// SPDX-License-Identifier: Apache-2.0
// The NCCL double between processes: the second rank is this program again, with one test.
#include <gmock/gmock.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

#include "unit/doubles/nccl_ranks.h"

namespace {

using testing::HasSubstr;

constexpr const char* kId = "HVD_TEST_NCCL_ID";
constexpr int kSteps = 3;

/// Adds ranks some times; the last sum.
float add_some(NcclRank& mine) {
  std::vector<float> values(100'000, 1.0F);
  for (int step = 0; step < kSteps; ++step) {
    EXPECT_EQ(ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat32, ncclSum,
                            mine.comm, mine.stream),
              ncclSuccess);
  }
  EXPECT_TRUE(mine.stream->wait());
  return values.back();
}

/// Starts rank 1.
pid_t start_peer(const ncclUniqueId& id, const std::vector<std::string>& more = {}) {
  std::vector<std::string> variables = more;
  variables.push_back(std::string(kId) + "=" + id.internal);
  std::vector<char*> environment;
  for (std::string& variable : variables) environment.push_back(variable.data());
  for (char** variable = environ; *variable != nullptr; ++variable)
    environment.push_back(*variable);
  environment.push_back(nullptr);
  char program[] = "/proc/self/exe";
  char filter[] = "--gtest_filter=NcclDoublePeer.DISABLED_IsRank1";
  char disabled[] = "--gtest_also_run_disabled_tests";
  char* arguments[] = {program, filter, disabled, nullptr};
  pid_t pid = -1;
  EXPECT_EQ(posix_spawn(&pid, program, nullptr, nullptr, arguments, environment.data()), 0);
  return pid;
}

TEST(NcclDoublePeer, DISABLED_IsRank1) {
  const char* name = std::getenv(kId);
  ASSERT_NE(name, nullptr);
  ncclUniqueId id{};
  std::strncpy(id.internal, name, sizeof(id.internal) - 1);
  use_gpu(1);
  CUstream_st stream;
  NcclRank mine{1, 2, nullptr, &stream};
  ASSERT_EQ(make_comm(&mine.comm, 2, id, 1, true), ncclSuccess);
  EXPECT_EQ(add_some(mine), 8.0F);
  EXPECT_EQ(ncclCommDestroy(mine.comm), ncclSuccess);
}

TEST_F(NcclDouble, WorksBetweenProcesses) {
  const ncclUniqueId id = new_id();
  const pid_t peer = start_peer(id);
  use_gpu(0);
  CUstream_st stream;
  NcclRank mine{0, 2, nullptr, &stream};
  ASSERT_EQ(make_comm(&mine.comm, 2, id, 0, true), ncclSuccess);
  EXPECT_EQ(add_some(mine), 8.0F);
  EXPECT_EQ(ncclCommDestroy(mine.comm), ncclSuccess);
  int status = -1;
  ASSERT_EQ(waitpid(peer, &status, 0), peer);
  EXPECT_EQ(status, 0);
}

TEST_F(NcclDouble, TellsThatAProcessHasGone) {
  const ncclUniqueId id = new_id();
  const pid_t peer = start_peer(id, {"HVD_DOUBLE_NCCL_HANG=1:1"});
  use_gpu(0);
  CUstream_st stream;
  ncclComm_t comm = nullptr;
  ASSERT_EQ(make_comm(&comm, 2, id, 0, true), ncclSuccess);
  float one = 1;
  ASSERT_EQ(ncclAllReduce(&one, &one, 1, ncclFloat32, ncclSum, comm, &stream), ncclSuccess);
  ASSERT_EQ(kill(peer, SIGKILL), 0);
  ASSERT_EQ(waitpid(peer, nullptr, 0), peer);
  ncclResult_t state = ncclSuccess;
  while (state == ncclSuccess) ASSERT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
  EXPECT_EQ(state, ncclRemoteError);
  EXPECT_THAT(ncclGetLastError(comm), HasSubstr("rank 1 has gone"));
  EXPECT_FALSE(stream.wait(std::chrono::milliseconds(5))) << "a kernel ended by itself";
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  EXPECT_TRUE(stream.wait());
}

TEST_F(NcclDouble, ReadsOrdersFromTheEnvironment) {
  const ncclUniqueId id = new_id();
  const pid_t peer =
      start_peer(id, {"HVD_DOUBLE_NCCL_VERSION=21805", "HVD_DOUBLE_NCCL_FAIL=ncclAllReduce:1:3:1"});
  use_gpu(0);
  ncclComm_t comm = nullptr;
  EXPECT_EQ(make_comm(&comm, 2, id, 0, true), ncclInvalidUsage);
  EXPECT_EQ(comm, nullptr);
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("rank 1 version 21805"));
  int status = -1;
  ASSERT_EQ(waitpid(peer, &status, 0), peer);
  EXPECT_NE(status, 0);
}

}  // namespace
