// SPDX-License-Identifier: Apache-2.0
#include "unit/doubles/small_driver.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {
// NOLINTNEXTLINE(performance-no-int-to-ptr): a context is the number of its GPU and one
CUcontext context_of(int device) { return reinterpret_cast<CUcontext>(std::uintptr_t(device + 1)); }
thread_local CUcontext current = nullptr;
}  // namespace

int architecture_of_gpus = 90;

void use_gpu(int device) { current = context_of(device); }

CUstream_st::CUstream_st() : thread_([this] { run(); }) {}

CUstream_st::~CUstream_st() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void CUstream_st::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const Work work = queue_.front();
    queue_.pop_front();
    running_ = true;
    lock.unlock();
    work.first(work.second);
    lock.lock();
    running_ = false;
    changed_.notify_all();
  }
}

void CUstream_st::put(Work work) {
  {
    const std::lock_guard lock(mutex_);
    if (capturing_) return captured_.push_back(work);
    queue_.push_back(work);
  }
  changed_.notify_all();
}

bool CUstream_st::wait(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [&] { return queue_.empty() && !running_; });
}

void CUstream_st::begin_capture() {
  const std::lock_guard lock(mutex_);
  capturing_ = true;
}

std::vector<CUstream_st::Work> CUstream_st::end_capture() {
  const std::lock_guard lock(mutex_);
  capturing_ = false;
  return std::exchange(captured_, {});
}

bool CUstream_st::is_capturing() {
  const std::lock_guard lock(mutex_);
  return capturing_;
}

extern "C" {

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* argument) {
  stream->put({function, argument});
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice /*device*/) {
  const bool is_major = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR;
  *value = is_major ? architecture_of_gpus / 10 : architecture_of_gpus % 10;
  return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  *status =
      stream->is_capturing() ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = current;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  current = context;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  *device = static_cast<int>(reinterpret_cast<std::uintptr_t>(current)) - 1;
  return current == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  std::memset(uuid, device, sizeof(*uuid));
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr* memory, std::size_t bytes) {
  *memory = reinterpret_cast<CUdeviceptr>(std::malloc(bytes));
  return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr memory) {
  std::free(reinterpret_cast<void*>(memory));  // NOLINT(performance-no-int-to-ptr)
  return CUDA_SUCCESS;
}
}
