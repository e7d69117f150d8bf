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

}  // namespace hvd
