// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/nccl_bucket.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/log.h"
#include "base/rounding.h"
#include "device/timed_call.h"

namespace hvd {
namespace {

constexpr std::size_t kLeastBytes = std::size_t{4} << 20;
constexpr std::size_t kMostDoubled = std::size_t{64} << 20;
constexpr std::size_t kGranularity = std::size_t{16} << 20;
constexpr int kSymmetricWindow = 1;  // NCCL_WIN_COLL_SYMMETRIC, which older headers lack

/// Without registration all is right, and slower, so that what a call refuses by its arguments,
/// which are equal on all ranks, is not a failure. Anything else is: the others would go on with
/// memory that NCCL knows, and wait for this rank, also where each rank tells NCCL by itself.
Status unless_refused(ncclResult_t result, Status status) {
  if (result != ncclInvalidUsage && result != ncclInvalidArgument) return status;
  log(LogLevel::kInfo, "nccl", "{}", status.message());
  return Status::ok();
}

}  // namespace

void NcclBucket::release() {
  const Deadline deadline = Deadline::after(kDevicePatience);
  if (retired_ != nullptr) free(*retired_, deadline);
  retired_.reset();
  if (current_ != nullptr) free(*current_, deadline);
  current_.reset();
}

std::size_t NcclBucket::capacity_for(std::size_t bytes) {
  if (bytes <= kMostDoubled) return std::bit_ceil(std::max(bytes, kLeastBytes));
  return round_up(bytes, kGranularity);
}

Result<bool> NcclBucket::reserve(std::size_t bytes, StreamHandle stream) {
  const bool grows = bytes > (current_ == nullptr ? 0 : current_->bytes);
  if (retired_ != nullptr && (grows || batches_since_ >= kBatchesUntilFree)) {
    // Which batch it is given back before depends on nothing but the order of batches. The device
    // is further, as a rule.
    HVD_TRY_ASSIGN(const bool is_unused, communicator_.gpu().has_happened(*retired_->last_use));
    if (!is_unused) return false;
    free(*std::exchange(retired_, nullptr), Deadline::at(Clock::now()));
  }
  if (retired_ != nullptr) ++batches_since_;
  if (grows) {
    HVD_TRY_ASSIGN(auto piece, make(capacity_for(bytes)));
    if (current_ != nullptr) {
      HVD_TRY_ASSIGN(current_->last_use, communicator_.gpu().record(stream));
      retired_ = std::move(current_);
      batches_since_ = 0;
    }
    current_ = std::move(piece);
  } else if (registers() && bytes > 0) {
    HVD_TRY(tell_nccl(*current_));
  }
  return true;
}

Result<std::unique_ptr<NcclBucket::Piece>> NcclBucket::make(std::size_t bytes) {
  auto piece = std::make_unique<Piece>();
  piece->bytes = bytes;
  const NcclCalls& calls = communicator_.library().calls();
  if (registers() && calls.mem_alloc != nullptr && calls.mem_free != nullptr) {
    // Other memory cannot be bound to that of the other ranks, which would wait for it.
    HVD_TRY(communicator_.check(calls.mem_alloc(&piece->memory, bytes), "no memory for a bucket"));
    piece->is_nccls = true;
  }
  if (!piece->is_nccls) {
    HVD_TRY_ASSIGN(piece->memory, communicator_.gpu().allocate(bytes));
  }
  if (registers()) {
    const Status status = make_window(*piece);
    if (!status.is_ok()) {
      free(*piece, Deadline::after(kDevicePatience));
      return status;
    }
  }
  return piece;
}

/// Windows are made by all ranks together, which all have NCCL's memory, and of one version of
/// NCCL. What a call meets later, on its way to the others, it tells as the state of the
/// communicator: that is of no more use then, so the batch fails.
Status NcclBucket::make_window(Piece& piece) {
  const NcclCalls& calls = communicator_.library().calls();
  const bool has_windows = registration_ == NcclRegistration::kWindows;
  if (!has_windows || calls.comm_window_register == nullptr) return tell_nccl(piece);
  const ncclResult_t result = calls.comm_window_register(
      communicator_.handle(), piece.memory, piece.bytes, &piece.window, kSymmetricWindow);
  return unless_refused(result, communicator_.check(result, "cannot make a window of a bucket"));
}

/// Where there is no window.
Status NcclBucket::tell_nccl(Piece& piece) {
  const NcclCalls& calls = communicator_.library().calls();
  if (std::exchange(piece.is_told, true) || piece.window != nullptr) return Status::ok();
  if (calls.comm_register == nullptr) return Status::ok();
  const ncclResult_t result =
      calls.comm_register(communicator_.handle(), piece.memory, piece.bytes, &piece.registration);
  return unless_refused(result, communicator_.check(result, "cannot register memory"));
}

/// The driver waits for all streams of the GPU, of which others may hang: at most until `deadline`
/// for it, which goes on by itself.
void NcclBucket::free(Piece& piece, Deadline deadline) {
  if (piece.memory == nullptr) return;
  const NcclCalls& calls = communicator_.library().calls();
  const ncclComm_t comm = communicator_.handle();
  if (comm != nullptr && piece.window != nullptr && calls.comm_window_deregister != nullptr) {
    calls.comm_window_deregister(comm, piece.window);
  }
  if (comm != nullptr && piece.registration != nullptr && calls.comm_deregister != nullptr) {
    calls.comm_deregister(comm, piece.registration);
  }
  const auto call = [memory = std::exchange(piece.memory, nullptr), gpu = &communicator_.gpu(),
                     mem_free = piece.is_nccls ? calls.mem_free : nullptr] {
    if (mem_free == nullptr) return gpu->deallocate(memory);
    const CurrentGpu current(*gpu);
    static_cast<void>(mem_free(memory));
  };
  piece = {};
  if (!ends_in_time(call, deadline)) {
    log(LogLevel::kDebug, "nccl", "the memory of a bucket is freed once the GPU comes to an end");
  }
}

}  // namespace hvd
