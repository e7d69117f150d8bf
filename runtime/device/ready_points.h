// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "base/mutex.h"
#include "device/gpu.h"

namespace hvd {

/// Where in a framework's stream the inputs of some requests are ready.
///
/// An event costs a microsecond or two, as much as the rest of a submission: requests that leave
/// together share one, which is recorded as they leave, or by the engine if it comes first. Later
/// in the stream is never wrong, since the stream already held what makes the inputs.
/// Thread-safe.
class ReadyPoint {
 public:
  ReadyPoint(Gpu& gpu, StreamHandle stream) : gpu_(gpu), stream_(stream) {}
  Gpu& gpu() const { return gpu_; }
  StreamHandle stream() const { return stream_; }
  /// The event; recorded at the first call.
  Result<GpuEventPtr> event();
  /// What is submitted from now on comes too late for it.
  bool is_recorded();

 private:
  Gpu& gpu_;
  StreamHandle stream_;
  Mutex mutex_;
  GpuEventPtr event_ HVD_GUARDED_BY(mutex_);
};
/// Shared by the requests that leave together.
using ReadyPointPtr = std::shared_ptr<ReadyPoint>;

/// The points that requests of each stream still join. Thread-safe.
class ReadyPoints {
 public:
  /// The point of what `stream` holds by now; not recorded yet as this returns.
  ReadyPointPtr join(Gpu& gpu, StreamHandle stream);
  /// Records all open points: what joins from now on needs new ones.
  Status close();

 private:
  Mutex mutex_;
  std::vector<ReadyPointPtr> open_ HVD_GUARDED_BY(mutex_);
};

}  // namespace hvd
