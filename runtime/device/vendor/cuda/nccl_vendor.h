// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <string_view>

namespace hvd {

/// What NVIDIA and AMD call differently, besides the header.
using NcclStream = cudaStream_t;
inline constexpr std::string_view kNcclTitle = "NCCL";
inline constexpr const char* kNcclSoname = "libnccl.so.2";
inline constexpr std::string_view kNcclStem = "libnccl.so";  ///< Of its file, whatever the version.

// By number: headers before 2.24 do not name them.
inline constexpr auto kNcclFloat8E4m3 = static_cast<ncclDataType_t>(10);
inline constexpr auto kNcclFloat8E5m2 = static_cast<ncclDataType_t>(11);
/// NCCL reduces 8-bit floats from 2.24 and sm_90 on.
constexpr bool nccl_reduces_float8(int version, int architecture) {
  return version >= 22'400 && architecture >= 90;
}
inline constexpr std::string_view kNcclFloat8Note = "NCCL adds 8-bit floats from 2.24 and sm_90 on";

}  // namespace hvd
