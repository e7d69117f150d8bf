// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>
#include <string_view>
#include <vector>

#include "launcher/lint/python_script.h"

namespace hvd {

/// No line: of what stands at the left edge, and outside of all functions.
constexpr std::size_t kNoLine = std::numeric_limits<std::size_t>::max();

/// Where a line stands in the blocks of its program.
struct BlockPlace {
  std::size_t header = kNoLine;    ///< Of the block that the line is in.
  std::size_t previous = kNoLine;  ///< The line before it in that block.
  std::size_t function = kNoLine;  ///< The "def" that the line is in.
};

/// The place of each line.
std::vector<BlockPlace> places_of_lines(const PythonScript& script);

/// The name behind "def" or "class"; empty: the line is neither.
std::string_view defined_name(const PythonLine& line);

}  // namespace hvd
