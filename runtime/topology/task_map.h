// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace hvd {

/// Tasks per node as Slurm writes them: "4(x2),2" is {4, 4, 2}. Anything else, a zero, or more than
/// 65536 nodes is kInvalidArgument, naming the place.
Result<std::vector<int>> parse_task_map(std::string_view text);

/// The inverse of parse_task_map.
std::string format_task_map(const std::vector<int>& tasks);

}  // namespace hvd
