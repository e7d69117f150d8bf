// SPDX-License-Identifier: Apache-2.0
// Memory: allocations, copies, patterns.
#include <cuda.h>

#include <cstring>
#include <memory>
#include <vector>

#include "calls.h"
#include "capture.h"
#include "devices.h"
#include "double_cuda.h"
#include "memory.h"
#include "streams.h"

using namespace double_cuda;  // NOLINT(google-build-using-namespace)

void double_free_waits(int waits) { double_cuda::free_waits() = waits != 0; }

CUresult cuMemAlloc(CUdeviceptr* address, std::size_t bytes) {
  DOUBLE_BEGIN(cuMemAlloc, kContext);
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult code = forbid_in_capture(); code != CUDA_SUCCESS) return code;
  void* const memory = allocate(bytes, Memory::kDevice, current_context()->device);
  if (memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<CUdeviceptr>(memory);
  return CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr address) {
  DOUBLE_BEGIN(cuMemFree, kContext);
  if (const CUresult code = forbid_in_capture(); code != CUDA_SUCCESS) return code;
  if (address == 0) return CUDA_SUCCESS;
  const auto found = allocation_of(address);
  if (!found || found->begin != address || found->kind != Memory::kDevice) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (free_waits()) wait_for_all(context_of(found->device));  // as drivers may
  return deallocate(address, Memory::kDevice) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostAlloc(void** memory, std::size_t bytes, unsigned) {
  DOUBLE_BEGIN(cuMemHostAlloc, kContext);
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult code = forbid_in_capture(); code != CUDA_SUCCESS) return code;
  *memory = allocate(bytes, Memory::kPinned, current_context()->device);
  return *memory == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void* memory) {
  DOUBLE_BEGIN(cuMemFreeHost, kContext);
  if (const CUresult code = forbid_in_capture(); code != CUDA_SUCCESS) return code;
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const auto found = allocation_of(address);
  if (!found || found->begin != address || found->kind != Memory::kPinned) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (int device = 0; device < device_count(); device++) wait_for_all(context_of(device));
  return deallocate(address, Memory::kPinned) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

namespace {

/// Ordinary memory of the host is read before the call returns, and written before it does.
CUresult copy_in(CUstream stream, std::uintptr_t to, std::uintptr_t from, std::size_t bytes) {
  const Range to_range = range_of(to, bytes);
  const Range from_range = range_of(from, bytes);
  if (to_range == Range::kInvalid || from_range == Range::kInvalid) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto* const target = reinterpret_cast<void*>(to);
  const auto* const source = reinterpret_cast<const char*>(from);
  if (from_range == Range::kOutside) {
    auto staged = std::make_shared<std::vector<char>>(source, source + bytes);
    const CUresult code = put(stream, [target, staged, bytes] {
      return std::memcpy(target, staged->data(), bytes), CUDA_SUCCESS;
    });
    if (to_range == Range::kOutside && code == CUDA_SUCCESS) wait_on_host(*mark(stream));
    return code;
  }
  if (to_range == Range::kOutside) {
    if (const CUresult code = forbid_on_captured(stream); code != CUDA_SUCCESS) return code;
  }
  const CUresult code = put(stream, [target, source, bytes] {
    return std::memmove(target, source, bytes), CUDA_SUCCESS;
  });
  if (to_range == Range::kOutside && code == CUDA_SUCCESS) wait_on_host(*mark(stream));
  return code;
}

}  // namespace

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream handle) {
  DOUBLE_BEGIN(cuMemcpyAsync, kContext);
  const CUstream stream = stream_of(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (bytes == 0) return CUDA_SUCCESS;
  return copy_in(stream, to, from, bytes);
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  DOUBLE_BEGIN(cuMemcpy, kContext);
  if (const CUresult code = forbid_in_capture(); code != CUDA_SUCCESS) return code;
  if (bytes == 0) return CUDA_SUCCESS;
  const CUstream stream = current_context()->stream;
  if (const CUresult code = copy_in(stream, to, from, bytes); code != CUDA_SUCCESS) return code;
  wait_on_host(*mark(stream));
  return stream->context->fault.load();
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t bytes, CUstream handle) {
  DOUBLE_BEGIN(cuMemsetD8Async, kContext);
  const CUstream stream = stream_of(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (bytes == 0) return CUDA_SUCCESS;
  if (range_of(to, bytes) != Range::kInside) return CUDA_ERROR_INVALID_VALUE;
  return put(stream, [to, value, bytes] {
    return std::memset(reinterpret_cast<void*>(to), value, bytes), CUDA_SUCCESS;
  });
}

CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  DOUBLE_BEGIN(cuPointerGetAttribute, kContext);
  const auto found = allocation_of(address);
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(value) = found->device;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext*>(value) = context_of(found->device);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<CUmemorytype*>(value) =
          found->kind == Memory::kDevice ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUresult cuMemGetAddressRange(CUdeviceptr* begin, std::size_t* bytes, CUdeviceptr address) {
  DOUBLE_BEGIN(cuMemGetAddressRange, kContext);
  const auto found = allocation_of(address);
  if (!found) return CUDA_ERROR_NOT_FOUND;
  if (begin != nullptr) *begin = found->begin;
  if (bytes != nullptr) *bytes = found->bytes;
  return CUDA_SUCCESS;
}
