// SPDX-License-Identifier: Apache-2.0
#include "capture.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <utility>

#include "calls.h"
#include "devices.h"
#include "double_cuda.h"

namespace double_cuda {
namespace {

/// Guards all captures; leaked, as Calls.
struct Captures {
  std::mutex mutex;
  std::set<std::shared_ptr<Capture>> active;
};

Captures& captures() {
  static Captures* const all = new Captures;
  return *all;
}

std::atomic<std::size_t> graphs{0};
/// What captures forbid this thread.
thread_local CUstreamCaptureMode interaction = CU_STREAM_CAPTURE_MODE_GLOBAL;

/// Of the GPU's streams that take turns with its default stream, one that is captured.
Capture* blocking_capture(CUcontext context) {
  for (const auto& capture : captures().active) {
    const CUstream origin = capture->origin;
    if (origin->context != context || (origin->flags & CU_STREAM_NON_BLOCKING) != 0) continue;
    return capture.get();
  }
  return nullptr;
}

void join(Clock& clock, const Clock& other) {
  for (const auto& [stream, nodes] : other) clock[stream] = std::max(clock[stream], nodes);
}

/// The default stream would wait for those that take turns with it, which a capture cannot hold.
CUresult heed_blocking_captures(CUstream stream) {
  if (stream != stream->context->stream) return CUDA_SUCCESS;
  Capture* const capture = blocking_capture(stream->context);
  if (capture == nullptr) return CUDA_SUCCESS;
  capture->invalid = true;
  return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

}  // namespace

CUresult add_to_capture(CUstream stream, Work& work, bool* captured) {
  std::lock_guard lock(captures().mutex);
  *captured = stream->capture != nullptr;
  if (*captured) {
    Capture& capture = *stream->capture;
    if (capture.invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    capture.nodes.push_back(std::move(work));
    capture.clocks[stream][stream]++;
    return CUDA_SUCCESS;
  }
  return heed_blocking_captures(stream);
}

CUresult forbid_in_capture() {
  std::lock_guard lock(captures().mutex);
  CUresult code = CUDA_SUCCESS;
  if (interaction == CU_STREAM_CAPTURE_MODE_RELAXED) return code;
  for (const auto& capture : captures().active) {
    const bool here = capture->thread == std::this_thread::get_id();
    const bool heeds_others = interaction == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                              capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED || (!here && !heeds_others)) continue;
    capture->invalid = true;
    code = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return code;
}

CUresult forbid_on_captured(CUstream stream) {
  std::lock_guard lock(captures().mutex);
  if (stream->capture == nullptr) return CUDA_SUCCESS;
  stream->capture->invalid = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult record_in_capture(CUstream stream, CUevent event, bool* captured) {
  std::lock_guard lock(captures().mutex);
  *captured = stream->capture != nullptr;
  std::lock_guard event_lock(event->mutex);
  if (!*captured) {
    event->capture = nullptr;
    return heed_blocking_captures(stream);
  }
  if (stream->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  event->point = nullptr;
  event->capture = stream->capture;
  event->clock = stream->capture->clocks[stream];
  return CUDA_SUCCESS;
}

CUresult wait_in_capture(CUstream stream, CUevent event, bool* captured) {
  std::lock_guard lock(captures().mutex);
  std::lock_guard event_lock(event->mutex);
  *captured = stream->capture != nullptr || event->capture != nullptr;
  if (!*captured) return heed_blocking_captures(stream);
  if (event->capture == nullptr) {
    if (event->point == nullptr) return CUDA_SUCCESS;  // never recorded: nothing to wait for
    stream->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (stream == stream->context->stream) {
    event->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  if (stream->capture != nullptr && stream->capture != event->capture) {
    stream->capture->invalid = true;
    event->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  stream->capture = event->capture;
  join(stream->capture->clocks[stream], event->clock);
  return CUDA_SUCCESS;
}

namespace {

/// Takes the streams out; what ending has to say about the capture.
CUresult close_capture(const std::shared_ptr<Capture>& capture) {
  CUresult code = capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
  const Clock& end = capture->clocks[capture->origin];
  for (const auto& [stream, clock] : capture->clocks) {
    stream->capture = nullptr;
    const auto own = clock.find(stream);
    const auto seen = end.find(stream);
    const std::size_t nodes = own == clock.end() ? 0 : own->second;
    const std::size_t joined = seen == end.end() ? 0 : seen->second;
    if (code == CUDA_SUCCESS && joined < nodes) code = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  }
  captures().active.erase(capture);
  return code;
}

}  // namespace
}  // namespace double_cuda

using namespace double_cuda;  // NOLINT(google-build-using-namespace)

CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  DOUBLE_BEGIN(cuStreamBeginCapture, kContext);
  const CUstream stream = stream_of(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (stream == stream->context->stream) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  std::lock_guard lock(captures().mutex);
  if (stream->capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  auto capture = std::make_shared<Capture>();
  capture->origin = stream;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->clocks[stream];
  stream->capture = capture;
  captures().active.insert(capture);
  return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  DOUBLE_BEGIN(cuStreamEndCapture, kContext);
  const CUstream stream = stream_of(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard lock(captures().mutex);
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
      capture->thread != std::this_thread::get_id()) {
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  *graph = nullptr;
  if (const CUresult code = close_capture(capture); code != CUDA_SUCCESS) return code;
  graphs++;
  *graph = new CUgraph_st{std::move(capture->nodes)};
  return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  DOUBLE_BEGIN(cuThreadExchangeStreamCaptureMode, kDriver);
  if (mode == nullptr || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL ||
      *mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::swap(interaction, *mode);
  return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  DOUBLE_BEGIN(cuStreamIsCapturing, kContext);
  const CUstream stream = stream_of(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard lock(captures().mutex);
  if (stream == stream->context->stream && blocking_capture(stream->context) != nullptr) {
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  *status = stream->capture == nullptr ? CU_STREAM_CAPTURE_STATUS_NONE
            : stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                       : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec* instance, CUgraph graph,
                                     unsigned long long flags) {
  DOUBLE_BEGIN(cuGraphInstantiateWithFlags, kContext);
  if (graph == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  graphs++;
  *instance = new CUgraphExec_st{current_context(), graph->nodes};
  return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec instance, CUstream handle) {
  DOUBLE_BEGIN(cuGraphLaunch, kContext);
  const CUstream stream = stream_of(handle);
  if (stream == nullptr || instance == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  // A copy: the graph may be destroyed while it waits in the stream.
  return put(stream, [nodes = instance->nodes] {
    for (const Work& node : nodes) {
      if (const CUresult code = node(); code != CUDA_SUCCESS) return code;
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphDestroy(CUgraph graph) {
  DOUBLE_BEGIN(cuGraphDestroy, kDriver);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  graphs--;
  delete graph;
  return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec instance) {
  DOUBLE_BEGIN(cuGraphExecDestroy, kDriver);
  if (instance == nullptr) return CUDA_ERROR_INVALID_VALUE;
  graphs--;
  delete instance;
  return CUDA_SUCCESS;
}

std::size_t double_graphs() { return double_cuda::graphs.load(); }
