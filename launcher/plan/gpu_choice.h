// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/node/node_topology.h"
#include "launcher/plan/allocation.h"
#include "topology/gpu_list.h"

namespace hvd {

/// What stands behind one entry of a visible list.
struct GpuBehind {
  int gpu = -1;    ///< GPU of the topology; -1: not known.
  std::string id;  ///< Its name on the node for every rank (HVD_GPU_ID); empty: not known.
};

/// By entry. Not known are indices of GPUs that are not counted in bus order (CUDA_DEVICE_ORDER) or
/// of a container that has not all device files of the node. kInvalidArgument: an entry names no
/// GPU of the node.
Result<std::vector<GpuBehind>> gpus_behind(const VisibleGpus& visible, const NodeTopology& topology,
                                           const Allocation& allocation);

}  // namespace hvd
