// SPDX-License-Identifier: Apache-2.0
// Streams and events.
#include <cuda.h>

#include <set>

#include "calls.h"
#include "capture.h"
#include "devices.h"
#include "double_cuda.h"
#include "streams.h"

namespace double_cuda {
namespace {

/// Leaked, as Calls.
struct Events {
  std::mutex mutex;
  std::set<CUevent> live;
};

Events& events() {
  static Events* const all = new Events;
  return *all;
}

bool is_event(CUevent event) {
  std::lock_guard lock(events().mutex);
  return events().live.count(event) == 1;
}

PointPtr point_of(CUevent event) {
  std::lock_guard lock(event->mutex);
  return event->point;
}

bool is_captured(CUevent event) {
  std::lock_guard lock(event->mutex);
  return event->capture != nullptr;
}

}  // namespace
}  // namespace double_cuda

using namespace double_cuda;  // NOLINT(google-build-using-namespace)

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  DOUBLE_BEGIN(cuStreamCreateWithPriority, kContext);
  if ((flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *stream = make_stream(current_context(), flags, priority);
  return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  DOUBLE_BEGIN(cuStreamCreate, kContext);
  *stream = make_stream(current_context(), flags, 0);
  return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream stream) {
  DOUBLE_BEGIN(cuStreamDestroy, kDriver);
  if (stream == nullptr || stream != stream_of(stream)) return CUDA_ERROR_INVALID_HANDLE;
  return close_stream(stream) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
  DOUBLE_BEGIN(cuStreamGetCtx, kContext);
  const CUstream stream = stream_of(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *context = stream->context;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetPriority(CUstream handle, int* priority) {
  DOUBLE_BEGIN(cuStreamGetPriority, kContext);
  const CUstream stream = stream_of(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *priority = stream->priority;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetFlags(CUstream handle, unsigned* flags) {
  DOUBLE_BEGIN(cuStreamGetFlags, kContext);
  const CUstream stream = stream_of(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *flags = stream->flags;
  return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream handle) {
  DOUBLE_BEGIN(cuStreamQuery, kContext);
  const CUstream stream = stream_of(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult code = forbid_on_captured(stream); code != CUDA_SUCCESS) return code;
  std::lock_guard lock(stream->mutex);
  return stream->items.empty() && !stream->running ? stream->context->fault.load()
                                                   : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamSynchronize(CUstream handle) {
  DOUBLE_BEGIN(cuStreamSynchronize, kContext);
  const CUstream stream = stream_of(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult code = forbid_on_captured(stream); code != CUDA_SUCCESS) return code;
  wait_on_host(*mark(stream));
  return stream->context->fault.load();
}

CUresult cuCtxSynchronize() {
  DOUBLE_BEGIN(cuCtxSynchronize, kContext);
  if (const CUresult code = forbid_in_capture(); code != CUDA_SUCCESS) return code;
  wait_for_all(current_context());
  return current_context()->fault.load();
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned flags) {
  DOUBLE_BEGIN(cuStreamWaitEvent, kContext);
  const CUstream stream = stream_of(handle);
  if (stream == nullptr || !is_event(event)) return CUDA_ERROR_INVALID_HANDLE;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  bool captured = false;
  const CUresult code = wait_in_capture(stream, event, &captured);
  if (captured || code != CUDA_SUCCESS) return code;
  PointPtr point = point_of(event);
  if (point == nullptr || point->is_reached()) return CUDA_SUCCESS;
  put_always(stream, [point] { return point->wait(), CUDA_SUCCESS; });
  return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent* event, unsigned) {
  DOUBLE_BEGIN(cuEventCreate, kContext);
  auto* const made = new CUevent_st;
  made->context = current_context();
  std::lock_guard lock(events().mutex);
  events().live.insert(made);
  *event = made;
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) {
  DOUBLE_BEGIN(cuEventDestroy, kDriver);
  std::lock_guard lock(events().mutex);
  if (events().live.erase(event) == 0) return CUDA_ERROR_INVALID_HANDLE;
  delete event;
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream handle) {
  DOUBLE_BEGIN(cuEventRecord, kContext);
  const CUstream stream = stream_of(handle);
  if (stream == nullptr || !is_event(event) || stream->context != event->context) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  bool captured = false;
  const CUresult code = record_in_capture(stream, event, &captured);
  if (captured || code != CUDA_SUCCESS) return code;
  PointPtr point = mark(stream);
  std::lock_guard lock(event->mutex);
  event->point = std::move(point);
  return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event) {
  DOUBLE_BEGIN(cuEventQuery, kDriver);
  if (!is_event(event)) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult code = forbid_in_capture(); code != CUDA_SUCCESS) return code;
  if (is_captured(event)) return CUDA_ERROR_CAPTURED_EVENT;
  const PointPtr point = point_of(event);
  if (point != nullptr && !point->is_reached()) return CUDA_ERROR_NOT_READY;
  return event->context->fault.load();
}

CUresult cuEventSynchronize(CUevent event) {
  DOUBLE_BEGIN(cuEventSynchronize, kDriver);
  if (!is_event(event)) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult code = forbid_in_capture(); code != CUDA_SUCCESS) return code;
  if (is_captured(event)) return CUDA_ERROR_CAPTURED_EVENT;
  const CUcontext context = event->context;
  if (const PointPtr point = point_of(event)) wait_on_host(*point);
  return context->fault.load();
}

std::size_t double_events() {
  std::lock_guard lock(events().mutex);
  return events().live.size();
}
