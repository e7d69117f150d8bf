// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"
#include "base/result.h"

namespace hvd {

enum class GpuEntryKind {
  kIndex,
  kGpuUuid,  ///< May be the beginning of one: CUDA takes any that is unique.
  kMigUuid,  ///< Likewise; before driver 470 "MIG-GPU-UUID/instance/instance".
  kTile,     ///< "2.1", of ZE_AFFINITY_MASK: tile 1 of device 2.
};

/// One entry of a visible list: "2", "GPU-8932f937-...", "MIG-...".
struct GpuEntry {
  GpuEntryKind kind = GpuEntryKind::kIndex;
  std::string text;
};

/// The entries of a visible list, up to the first "-1", as CUDA reads it. Empty, "none" and
/// "NoDevFiles" have none. An entry that is neither an index nor a UUID, or comes twice, is
/// kInvalidArgument.
Result<std::vector<GpuEntry>> parse_gpu_list(std::string_view text);

/// The entries of ZE_AFFINITY_MASK: devices and tiles of devices ("0,1.0,1.1").
Result<std::vector<GpuEntry>> parse_affinity_mask(std::string_view text);

/// The GPUs that this process may use.
struct VisibleGpus {
  std::string variable;  ///< Where the list came from; empty: counted on the node.
  std::vector<GpuEntry> entries;
  /// Every task has a list of its own (Slurm's --gpus-per-task): not shared by the local ranks.
  bool is_private = false;
};

/// Reads CUDA_VISIBLE_DEVICES, else HIP_VISIBLE_DEVICES (numbers within ROCR_VISIBLE_DEVICES where
/// both are set), else ROCR_VISIBLE_DEVICES, else ZE_AFFINITY_MASK; else `gpus_on_node` entries.
Result<VisibleGpus> visible_gpus(const Environment& environment, int gpus_on_node);

/// The entry of the visible list that the local rank uses: the local_rank-th (never the number
/// local_rank), the first of a private list; nothing where there is no GPU. More ranks than GPUs is
/// kInvalidArgument with the remedy, unless `shares_gpu` (HVD_SHARE_GPU).
Result<std::optional<int>> choose_gpu(const VisibleGpus& gpus, bool shares_gpu, int local_rank,
                                      int local_size);

}  // namespace hvd
