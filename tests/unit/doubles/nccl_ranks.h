// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <nccl.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "doubles/nccl/double_nccl.h"
#include "unit/doubles/small_driver.h"

/// One rank of a test: its communicator and its stream.
struct NcclRank {
  int rank = 0;
  int size = 1;
  ncclComm_t comm = nullptr;
  CUstream stream = nullptr;
};

/// Calls body on a thread for each of `size` ranks, each with its own GPU and a communicator of
/// all. What the body leaves is destroyed after it; a body that aborts sets `comm` to null.
void run_nccl_ranks(int size, const std::function<void(NcclRank&)>& body, bool blocking = true);

/// ncclCommInitRankConfig; of a non-blocking communicator also what follows it.
ncclResult_t make_comm(ncclComm_t* comm, int size, const ncclUniqueId& id, int rank, bool blocking);
/// ncclCommGetAsyncError until it is not ncclInProgress.
ncclResult_t settle(ncclComm_t comm);

inline ncclUniqueId new_id() {
  ncclUniqueId id;
  EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  return id;
}

/// Forgets what other tests ordered, and wants no complaint and nothing left.
class NcclDouble : public testing::Test {
 protected:
  void SetUp() override { double_nccl_reset(); }
  void TearDown() override {
    EXPECT_EQ(double_nccl_complaints(), 0) << double_nccl_last_complaint();
    EXPECT_EQ(double_nccl_alive(), 0);
  }
  /// Takes the one complaint that a test wants.
  static std::string complaint() {
    EXPECT_GT(double_nccl_complaints(), 0);
    std::string text = double_nccl_last_complaint();
    double_nccl_reset();
    return text;
  }
};
