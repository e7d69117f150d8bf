// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace hvd {

/// What Python runs: a word of a command.
struct PythonTarget {
  std::size_t at = 0;
  bool is_module = false;  ///< The word of "-m"; else a file.
  std::string name;        ///< The file without its folder, or the module.
};

/// The script or module of Python that a command runs, by itself or under launchers, env, numactl
/// or a profiler; absent: it runs none. What stands behind it are its arguments.
std::optional<PythonTarget> python_target(const std::vector<std::string>& command);

}  // namespace hvd
