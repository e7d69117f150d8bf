// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rccl/rccl.h>

#include <string_view>

namespace hvd {

/// What NVIDIA and AMD call differently, besides the header.
using NcclStream = hipStream_t;
inline constexpr std::string_view kNcclTitle = "RCCL";
inline constexpr const char* kNcclSoname = "librccl.so.1";
inline constexpr std::string_view kNcclStem = "librccl.so";  ///< Of its file, whatever the version.

inline constexpr auto kNcclFloat8E4m3 = static_cast<ncclDataType_t>(10);
inline constexpr auto kNcclFloat8E5m2 = static_cast<ncclDataType_t>(11);
/// RCCL adds 8-bit floats in the format of the GPU, which on gfx942 is another one (fnuz).
constexpr bool nccl_reduces_float8(int /*version*/, int /*architecture*/) { return false; }
inline constexpr std::string_view kNcclFloat8Note =
    "RCCL may take them for numbers of another 8-bit format";

}  // namespace hvd
