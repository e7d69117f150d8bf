// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "device/memory_reaper.h"
#include "device/ready_points.h"
#include "engine/request/pending_request.h"

namespace hvd {

/// Requests on GPU memory, where they differ from others: what is checked as they come, where their
/// inputs are ready, and who reads what the library made.
/// Thread-safe.
class GpuRequests {
 public:
  /// `gpus` outlives this object; null: requests on GPU memory are refused.
  GpuRequests(Gpus* gpus, int rank) : gpus_(gpus), rank_(rank) {}

  /// The GPU of the request, ready for it; null for a request on CPU memory. kUnsupported: there
  /// are no GPUs, or the stream cannot be used.
  Result<Gpu*> open(const Request& request);
  /// Joins the point at which the inputs of the request are ready in its stream.
  void attach(PendingRequest& pending, Gpu& gpu);
  /// True from the first tensor of GPU memory on.
  bool any() const {
    // relaxed: set before a caller has the handle of a tensor of GPU memory.
    return any_.load(std::memory_order_relaxed);
  }
  /// Records where the inputs of what was submitted are ready: what is submitted after this is not
  /// waited for. What cannot be recorded fails with its batch.
  void record_inputs() {
    if (any()) static_cast<void>(ready_points_.close());
  }
  /// Before a release: drivers need not wait for the streams that read what the library made.
  void free_after_readers(PendingRequest& pending);

 private:
  Gpus* const gpus_;
  const int rank_;
  MemoryReaper reaper_;  ///< Frees the results that the library makes: lives longer than they do.
  ReadyPoints ready_points_;
  std::atomic<bool> any_{false};
};

/// A stream that waits for requests on GPU memory: once for each batch, also where several of the
/// requests left in it. One thread at a time.
class StreamWait {
 public:
  StreamWait(StreamHandle stream, int rank) : stream_(stream), rank_(rank) {}

  /// kInvalidArgument: one of the requests is on CPU memory.
  Status check_memory(std::span<const PendingPtr> requests) const;
  /// Before the request is waited for: the stream must be able to wait.
  Status check_stream(const PendingRequest& pending);
  /// The request is enqueued or done: `stream` comes after it from now on. The failure of a
  /// request that is done.
  Status add(PendingRequest& pending);

 private:
  StreamHandle stream_;
  int rank_;
  const Gpu* checked_ = nullptr;
  std::vector<const GpuEvent*> awaited_;  ///< Few: one for each batch.
};

}  // namespace hvd
