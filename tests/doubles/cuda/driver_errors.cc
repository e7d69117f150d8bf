// SPDX-License-Identifier: Apache-2.0
// Names and texts of codes: of those that the double gives, or that tests make it give.
#include <cuda.h>

#include <algorithm>
#include <array>

#include "calls.h"

namespace {

struct Text {
  CUresult code;
  const char* name;
  const char* text;
};

#define DOUBLE_TEXT(code, text) \
  Text { code, #code, text }
constexpr std::array kTexts{
    DOUBLE_TEXT(CUDA_SUCCESS, "no error"),
    DOUBLE_TEXT(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    DOUBLE_TEXT(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    DOUBLE_TEXT(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    DOUBLE_TEXT(CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA-capable device(s) is/are busy or unavailable"),
    DOUBLE_TEXT(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    DOUBLE_TEXT(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    DOUBLE_TEXT(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    DOUBLE_TEXT(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    DOUBLE_TEXT(CUDA_ERROR_NO_BINARY_FOR_GPU,
                "no kernel image is available for execution on the device"),
    DOUBLE_TEXT(CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable ECC error encountered"),
    DOUBLE_TEXT(CUDA_ERROR_NVLINK_UNCORRECTABLE,
                "uncorrectable NVLink error detected during the execution"),
    DOUBLE_TEXT(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    DOUBLE_TEXT(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"),
    DOUBLE_TEXT(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    DOUBLE_TEXT(CUDA_ERROR_NOT_READY, "device not ready"),
    DOUBLE_TEXT(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    DOUBLE_TEXT(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    DOUBLE_TEXT(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    DOUBLE_TEXT(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    DOUBLE_TEXT(CUDA_ERROR_SYSTEM_NOT_READY, "system not yet initialized"),
    DOUBLE_TEXT(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
                "system has unsupported display driver / cuda driver combination"),
    DOUBLE_TEXT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                "operation not permitted when stream is capturing"),
    DOUBLE_TEXT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
                "operation failed due to a previous error during capture"),
    DOUBLE_TEXT(CUDA_ERROR_STREAM_CAPTURE_MERGE,
                "operation would result in a merge of separate capture sequences"),
    DOUBLE_TEXT(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "capture was not ended in the same stream"),
    DOUBLE_TEXT(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work"),
    DOUBLE_TEXT(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
                "dependency created on uncaptured work in another stream"),
    DOUBLE_TEXT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                "operation would make the legacy stream depend on a capturing blocking stream"),
    DOUBLE_TEXT(CUDA_ERROR_CAPTURED_EVENT,
                "operation not permitted on an event last recorded in "
                "a capturing stream"),
    DOUBLE_TEXT(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
                "attempt to terminate a thread-local capture sequence from another thread"),
    DOUBLE_TEXT(CUDA_ERROR_UNKNOWN, "unknown error"),
};
#undef DOUBLE_TEXT

const Text* find(CUresult code) {
  const auto found =
      std::find_if(kTexts.begin(), kTexts.end(), [&](const Text& one) { return one.code == code; });
  return found == kTexts.end() ? nullptr : &*found;
}

}  // namespace

CUresult cuGetErrorName(CUresult code, const char** name) {
  DOUBLE_BEGIN(cuGetErrorName, kNothing);
  const Text* const found = find(code);
  *name = found == nullptr ? nullptr : found->name;
  return found == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult code, const char** text) {
  DOUBLE_BEGIN(cuGetErrorString, kNothing);
  const Text* const found = find(code);
  *text = found == nullptr ? nullptr : found->text;
  return found == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
