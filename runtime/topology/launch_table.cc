// SPDX-License-Identifier: Apache-2.0
#include "topology/launch_table.h"

#include "base/format.h"
#include "topology/launch_env.h"

namespace hvd {
namespace {

/// In the order of the page.
constexpr auto kLaunchVariables = std::to_array<LaunchVariables>({
    {{launch_env::kRank, launch_env::kSize, launch_env::kLocalRank, launch_env::kLocalSize,
      launch_env::kNode},
     "who this rank is; set by `hvdrun -np` alone, in a task of Slurm the variables of "
     "Slurm tell"},
    {{launch_env::kStore}, "address of hvdrun's store"},
    {{launch_env::kJobKey}, "the job's secret; redacted in every output"},
    {{launch_env::kProcess},
     "in an elastic job: the number of the process, for life; it asks hvdrun for its rank by it"},
    {{launch_env::kVirtualNode}, "index of the virtual node (`--nodes`)"},
    {{launch_env::kLocalDevice}, "index into the rank's visible GPUs"},
    {{launch_env::kGpuId},
     "what the rank's GPU is called on its node (PCI bus id, `GPU-…`, `MIG-…`); two ranks "
     "with one name on a host do not start, unless `HVD_SHARE_GPU=1`"},
    {{launch_env::kJobMarker},
     "by which the tasks of a step are found at its end, beside `SLURM_JOB_ID`"},
    {{launch_env::kMasterOf},
     "`JOB.STEP/ADDRESS:PORT`: `MASTER_ADDR` and `MASTER_PORT` of these values are "
     "hvdrun's, for that Slurm step (empty: not hvdrun's). In another step, under `-np` "
     "and in jobs that it submits, hvdrun takes them for unset; a value that you changed "
     "is yours"},
    {{launch_env::kRankOf},
     "`JOB.STEP/RANK`: `RANK` of this value, `WORLD_SIZE`, `LOCAL_RANK` and "
     "`LOCAL_WORLD_SIZE` are hvdrun's, for a task of that step. In another step and in "
     "other jobs hvdrun and libhvd take them for unset; a `RANK` that you changed is yours"},
    {{launch_env::kLossPipe},
     "`FD:INODE` of the pipe on which a rank tells hvdrun whom it lost, so that hvdrun "
     "names the cause first"},
});

}  // namespace

std::span<const LaunchVariables> launch_variables() { return kLaunchVariables; }

std::string launch_table() {
  std::string text = "| variable | meaning |\n|---|---|\n";
  for (const LaunchVariables& row : kLaunchVariables) {
    std::string names;
    for (const std::string_view name : row.names) {
      if (!name.empty()) names += format_text("{}`{}`", names.empty() ? "" : ", ", name);
    }
    text += format_text("| {} | {} |\n", names, row.meaning);
  }
  return text;
}

}  // namespace hvd
