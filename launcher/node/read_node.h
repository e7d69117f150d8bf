// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/result.h"
#include "launcher/node/file_tree.h"
#include "launcher/node/node_topology.h"

namespace hvd {

/// What to read of a node. What is not asked for stays empty: every file costs time at each start.
struct NodeParts {
  bool gpus = false;
  bool nics = false;       ///< With `gpus` the distances between them, too.
  bool gpu_names = false;  ///< Models and UUIDs of the GPUs, as far as drivers say them in files.
};

/// Reads the hardware below `root` ("" is this machine) from sysfs: cores and NUMA nodes always.
/// Works without hwloc, which takes 10 ms and more where this takes less than one. A machine that
/// hides its sysfs has no cores here.
NodeTopology read_node(const std::string& root, const NodeParts& parts);

/// Reads hwloc's XML form (`lstopo --of xml FILE`). kInvalidArgument: not such a file;
/// kUnsupported: built without hwloc.
Result<NodeTopology> read_node_xml(const std::string& path);

}  // namespace hvd
