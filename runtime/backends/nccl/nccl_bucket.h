// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "backends/nccl/nccl_communicator.h"
#include "base/deadline.h"
#include "device/gpu.h"

namespace hvd {

/// The memory that a communicator's packed tensors go through. One stream is all there is, so the
/// batches take turns in one piece of memory. It grows, on all ranks alike. Engine thread only.
class NcclBucket {
 public:
  /// `registers`: NCCL is told of the memory, so that GPUs and NICs reach it without a copy.
  NcclBucket(NcclCommunicator& communicator, bool registers)
      : communicator_(communicator), registers_(registers) {}
  NcclBucket(const NcclBucket&) = delete;
  NcclBucket& operator=(const NcclBucket&) = delete;
  /// Nothing may use the memory any more; after abandon() it is left alone.
  ~NcclBucket();

  /// Makes it hold `bytes`, behind what is in `stream`; the communicator may go on.
  Status reserve(std::size_t bytes, StreamHandle stream);
  std::byte* memory() const {
    return current_ == nullptr ? nullptr : static_cast<std::byte*>(current_->memory);
  }
  void abandon() {
    static_cast<void>(current_.release());  // leaked: NCCL may still write there
    for (auto& piece : retired_) static_cast<void>(piece.release());
  }

 private:
  struct Piece {
    void* memory = nullptr;
    std::size_t bytes = 0;
    bool is_nccls = false;  ///< From ncclMemAlloc.
    bool is_told = false;   ///< NCCL was asked to register it.
    void* registration = nullptr;
    ncclWindow_vidmem* window =
        nullptr;  ///< Written when the communicator is settled, or left null.
    GpuEventPtr last_use = nullptr;
  };
  Result<std::unique_ptr<Piece>> make(std::size_t bytes);
  Status make_window(Piece& piece);
  void tell_nccl(Piece& piece);
  void free(Piece& piece, Deadline deadline);

  NcclCommunicator& communicator_;
  bool registers_;
  std::unique_ptr<Piece> current_;
  std::vector<std::unique_ptr<Piece>> retired_;
};

}  // namespace hvd
