// SPDX-License-Identifier: Apache-2.0
#include "launcher/node/read_node.h"

namespace hvd {

Result<NodeTopology> read_node_xml(const std::string& path) {
  return error(
      Code::kUnsupported,
      "'{}' is hwloc's XML form, and this hvdrun is built without hwloc: describe the node "
      "by a copy of its /sys (--sysfs DIR)",
      path);
}

}  // namespace hvd
