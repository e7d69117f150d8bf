// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>
#include <nccl.h>

#include <functional>
#include <utility>
#include <vector>

#include "doubles/nccl/communicator.h"

namespace double_nccl {

/// What this thread has called since ncclGroupStart. One thread only.
class Group {
 public:
  static Group& of_this_thread();

  void start() { ++depth_; }
  /// What ncclGroupEnd returns.
  ncclResult_t end();
  /// An operation, which leaves at the end of the group, or at once outside of one.
  ncclResult_t add(CommunicatorPtr communicator, CUstream stream, Call call);
  /// Something else that several communicators of a thread must do together.
  ncclResult_t add(CommunicatorPtr communicator, std::function<ncclResult_t()> job);
  /// An error in a group drops all of it.
  ncclResult_t fail(ncclResult_t code);

 private:
  struct Launch {
    CommunicatorPtr communicator;
    CUstream stream;
    std::vector<Call> calls;
  };
  ncclResult_t launch();
  ncclResult_t run_jobs();

  int depth_ = 0;
  ncclResult_t error_ = ncclSuccess;
  std::vector<Launch> launches_;
  std::vector<std::pair<CommunicatorPtr, std::function<ncclResult_t()>>> jobs_;
};

}  // namespace double_nccl
