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

}  // namespace hvd
