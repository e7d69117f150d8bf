// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "backends/nccl/nccl_error.h"
#include "backends/nccl/nccl_library.h"
#include "backends/nccl/nccl_plan.h"
#include "base/deadline.h"
#include "device/gpu.h"

namespace hvd {

/// What is put into a stream at once: addresses of one step, resolved.
struct NcclOperands {
  const void* from = nullptr;
  void* to = nullptr;
};

/// A communicator of NCCL: non-blocking, so that no call of the engine waits for another rank.
///
/// Calls that are said to go on return before NCCL has done its part: is_settled() tells when, and
/// nothing else may be called before. Its thread has the GPU as CurrentGpu. Engine thread only.
class NcclCommunicator {
 public:
  /// `nccl` lives longer.
  NcclCommunicator(const NcclLibrary& nccl, Gpu& gpu) : nccl_(nccl), gpu_(gpu) {}
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;
  ~NcclCommunicator() { finish(); }

  /// Goes on.
  Status begin(const ncclUniqueId& id, int rank, int size);
  /// Whether the last call has ended; and the failure of anything that is under way.
  Result<bool> is_settled();

  Status begin_group();
  /// `premul`: the factor of kPreMulSum.
  Status add(const NcclStep& step, const NcclOperands& operands, double premul,
             StreamHandle stream);
  /// Goes on.
  Status end_group();

  const NcclLibrary& library() const { return nccl_; }
  ncclComm_t handle() const { return comm_; }
  Gpu& gpu() const { return gpu_; }
  /// Ok for a call that has ended or goes on; else what failed, with NCCL's own words and a hint.
  Status check(ncclResult_t result, std::string_view what) const;

  /// Ends it with the other ranks, who do the same; where that takes too long it is aborted.
  void finish();
  /// Ends all that is under way, without the other ranks. Waits for the device, without end where
  /// that hangs.
  void abort();

 private:
  struct Factor {
    double value;
    DataType dtype;
    ncclRedOp_t fold;
  };
  Result<ncclRedOp_t> fold_of(const NcclStep& step, double premul);
  Status flush(Deadline deadline);

  const NcclLibrary& nccl_;
  Gpu& gpu_;
  ncclComm_t comm_ = nullptr;
  NcclPhase phase_ = NcclPhase::kConnecting;
  std::vector<Factor> factors_;  // few: one per scale of the program
};

/// kUnsupported where a version of NCCL refuses the type.
Result<ncclDataType_t> nccl_data_type(DataType dtype);

}  // namespace hvd
