// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace hvd {

inline constexpr std::size_t kMaxHosts = 65536;

/// The hosts of a Slurm hostlist, in its order: "jz[1-3,7],p2n[01-02]" has six. Several brackets in
/// one word multiply, the last one fastest. More than `limit` hosts, an open bracket, an empty word
/// or a backward range is kInvalidArgument, naming the place.
Result<std::vector<std::string>> expand_hostlist(std::string_view text,
                                                 std::size_t limit = kMaxHosts);

/// The shortest hostlist that expands to `hosts` in this order.
std::string compress_hostlist(std::span<const std::string> hosts);

}  // namespace hvd
