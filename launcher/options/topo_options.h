// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace hvd {

/// What the user typed after `hvdrun topo`.
struct TopoOptions {
  std::optional<int> ranks;  ///< -np
  bool json = false;
  std::string svg;    ///< File to draw into; empty: text on standard output.
  std::string xml;    ///< A recorded node in hwloc's form; empty: none.
  std::string sysfs;  ///< Folder that holds a recorded node's sys; empty: this machine.
};

}  // namespace hvd
