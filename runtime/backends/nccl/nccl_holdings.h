// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "backends/nccl/nccl_bucket.h"
#include "backends/nccl/nccl_communicator.h"
#include "backends/nccl/nccl_graphs.h"
#include "backends/nccl/nccl_library.h"
#include "device/event_watcher.h"
#include "device/gpu.h"

namespace hvd {

/// What a process set has on the GPU of this rank: all that an abort may leave behind for a while.
///
/// Shared by the session and, once it is given up, the thread that aborts it: the one that ends
/// last releases it. Engine thread only, then that thread only.
class NcclHoldings {
 public:
  struct Options {
    NcclRegistration registration = NcclRegistration::kWindows;
    bool uses_graphs = false;
  };
  /// The GPU is the thread's CurrentGpu.
  static Result<std::shared_ptr<NcclHoldings>> open(const NcclLibrary& library, Gpu& gpu,
                                                    Options options);
  NcclHoldings(const NcclHoldings&) = delete;
  NcclHoldings& operator=(const NcclHoldings&) = delete;
  /// Ends the communicator with the other ranks, unless it was aborted. Nothing is in the stream.
  ~NcclHoldings();

  StreamHandle stream() const { return stream_; }
  NcclCommunicator& communicator() { return communicator_; }
  NcclBucket& bucket() { return bucket_; }
  NcclBucket& spare() { return spare_; }
  NcclGraphs* graphs() { return graphs_.get(); }
  EventWatcher& watcher() { return *watcher_; }

  /// Ends what is under way without the other ranks. Returns when the device has come to the end of
  /// the stream, which may have to wait for a caller's work, and never where the GPU or NCCL hangs.
  void abort();

 private:
  NcclHoldings(const NcclLibrary& library, Gpu& gpu, Options options, StreamHandle stream);

  const NcclLibrary library_;
  Gpu& gpu_;
  StreamHandle stream_;
  NcclCommunicator communicator_;
  NcclBucket bucket_;
  NcclBucket spare_;
  std::unique_ptr<NcclGraphs> graphs_;
  std::unique_ptr<EventWatcher> watcher_;
};

}  // namespace hvd
