// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "backends/nccl/nccl_communicator.h"
#include "base/deadline.h"
#include "device/gpu.h"

namespace hvd {

/// How NCCL is told of memory, so that GPUs and NICs reach it without a copy.
enum class NcclRegistration {
  kNone,
  kEachRank,  ///< ncclCommRegister: each rank by itself.
  kWindows,   ///< ncclCommWindowRegister: all ranks together, where NCCL has it.
};

/// The memory that a communicator's packed tensors go through. One stream is all there is, so the
/// batches take turns in one piece of memory. It grows, on all ranks alike, and what it was before
/// is given back after some batches, again on all ranks alike: NCCL finds the place of a window in
/// the memory that GPUs share by what windows each rank has. Engine thread only.
class NcclBucket {
 public:
  /// Batches that come until the memory is given back that a bucket was before it grew.
  static constexpr int kBatchesUntilFree = 8;
  /// How much is allocated where `bytes` are needed: twice as much as before while it is little.
  static std::size_t capacity_for(std::size_t bytes);

  NcclBucket(NcclCommunicator& communicator, NcclRegistration registration)
      : communicator_(communicator), registration_(registration) {}
  NcclBucket(const NcclBucket&) = delete;
  NcclBucket& operator=(const NcclBucket&) = delete;
  ~NcclBucket() { release(); }

  /// A batch needs `bytes`, or 0, after what is in `stream`: with equal numbers on all ranks.
  /// False: what it was before is still in use; to be called again. True: it is there, and the
  /// communicator may go on.
  Result<bool> reserve(std::size_t bytes, StreamHandle stream);
  std::byte* memory() const {
    return current_ == nullptr ? nullptr : static_cast<std::byte*>(current_->memory);
  }
  /// Frees all of it, which nothing may use any more; before the communicator ends.
  void release();

 private:
  struct Piece {
    void* memory = nullptr;
    std::size_t bytes = 0;
    bool is_nccls = false;  ///< From ncclMemAlloc.
    bool is_told = false;   ///< NCCL was asked to register it.
    void* registration = nullptr;
    /// Written when the communicator is settled, or left null.
    ncclWindow_vidmem* window = nullptr;
    GpuEventPtr last_use = nullptr;
  };
  Result<std::unique_ptr<Piece>> make(std::size_t bytes);
  bool registers() const { return registration_ != NcclRegistration::kNone; }
  Status make_window(Piece& piece);
  Status tell_nccl(Piece& piece);
  void free(Piece& piece, Deadline deadline);

  NcclCommunicator& communicator_;
  NcclRegistration registration_;
  std::unique_ptr<Piece> current_;
  std::unique_ptr<Piece> retired_;  ///< What it was before it grew.
  int batches_since_ = 0;           ///< Batches since then.
};

}  // namespace hvd
