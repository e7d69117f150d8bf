// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/environment.h"
#include "base/result.h"
#include "launcher/node/node_topology.h"
#include "topology/gpu_list.h"

namespace hvd {

/// By entry of the visible list, the GPU of the topology that it names; -1: its place is not known
/// (a UUID without NVIDIA's driver files, a machine that hides its PCI devices, a flat numbering of
/// tiles). Numbers are in PCI order (CUDA_DEVICE_ORDER=PCI_BUS_ID); where Slurm closed the job's
/// other GPUs they count within the job's (SLURM_STEP_GPUS, SLURM_JOB_GPUS), and those of
/// HIP_VISIBLE_DEVICES within ROCR_VISIBLE_DEVICES. An entry that names no GPU of the node, or
/// several, or one that another entry names already, is kInvalidArgument. Pure.
Result<std::vector<int>> locate_gpus(const NodeTopology& topology, const VisibleGpus& visible,
                                     const Environment& environment);

}  // namespace hvd
