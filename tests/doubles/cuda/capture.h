// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "streams.h"

namespace double_cuda {

/// Of each stream, how many of its nodes come before.
using Clock = std::map<CUstream, std::size_t>;

/// Streams that are captured together. Its nodes run in the order of the calls, which is one of
/// those that the graph allows.
struct Capture {
  CUstream origin = nullptr;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  bool invalid = false;
  std::vector<Work> nodes;
  std::map<CUstream, Clock> clocks;  ///< Of the streams that take part.
};

/// Appends the work where the stream is captured.
CUresult add_to_capture(CUstream stream, Work& work, bool* captured);
/// What this thread must not call while streams are captured, as the mode of the thread and of the
/// captures has it, makes the captures invalid.
CUresult forbid_in_capture();
/// As forbid_in_capture(), for what asks after, or waits for, a captured stream.
CUresult forbid_on_captured(CUstream stream);

/// Instead of marking the stream, or waiting in it, where it is captured.
CUresult record_in_capture(CUstream stream, CUevent event, bool* captured);
CUresult wait_in_capture(CUstream stream, CUevent event, bool* captured);

}  // namespace double_cuda

struct CUevent_st {
  CUcontext context = nullptr;
  std::mutex mutex;
  double_cuda::PointPtr point;  ///< Null: never recorded.
  /// Recorded in a captured stream: what comes before.
  std::shared_ptr<double_cuda::Capture> capture;
  double_cuda::Clock clock;
};

struct CUgraph_st {
  std::vector<double_cuda::Work> nodes;
};
struct CUgraphExec_st {
  CUcontext context = nullptr;
  std::vector<double_cuda::Work> nodes;
};
