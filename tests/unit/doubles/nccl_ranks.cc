// SPDX-License-Identifier: Apache-2.0
#include "unit/doubles/nccl_ranks.h"

ncclResult_t settle(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    const ncclResult_t asked = ncclCommGetAsyncError(comm, &state);
    if (asked != ncclSuccess) return asked;
    std::this_thread::yield();
  }
  return state;
}

ncclResult_t make_comm(ncclComm_t* comm, int size, const ncclUniqueId& id, int rank,
                       bool blocking) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = blocking ? 1 : 0;
  const ncclResult_t result = ncclCommInitRankConfig(comm, size, id, rank, &config);
  if (blocking) return result;
  return result == ncclInProgress ? settle(*comm) : result;
}

void run_nccl_ranks(int size, const std::function<void(NcclRank&)>& body, bool blocking) {
  const ncclUniqueId id = new_id();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      use_gpu(rank);
      CUstream_st stream;
      NcclRank mine{rank, size, nullptr, &stream};
      ASSERT_EQ(make_comm(&mine.comm, size, id, rank, blocking), ncclSuccess);
      body(mine);
      if (mine.comm != nullptr) {
        EXPECT_EQ(ncclCommDestroy(mine.comm), ncclSuccess);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}
