// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string_view>

#include "topology/launch_env.h"

namespace hvd {

/// Which launchers run inside which: a later one may have started an earlier one, by daemons or by
/// a script, and its variables then describe what is around the process.
enum class LauncherLayer { kHvdrun, kTorchrun, kMpirun, kFlux, kManager };

/// The variables of one launcher; an empty name where it has none.
struct LaunchSource {
  std::string_view name;
  std::string_view rank;
  std::string_view size;
  std::string_view local_rank;
  std::string_view local_size;
  std::string_view node;
  std::string_view node_count;
  /// Only there when this launcher started the process; empty: `rank` and `size` tell.
  std::string_view mark;
  LauncherLayer layer;

  /// All of them.
  constexpr std::array<std::string_view, 7> variables() const {
    return {rank, size, local_rank, local_size, node, node_count, mark};
  }
};

inline constexpr std::string_view kSlurmStep = "Slurm step";
inline constexpr std::string_view kPmix = "PMIx";
inline constexpr std::string_view kPmi = "PMI";
/// The names that torchrun gives, as hvdrun gives them too and others set them by hand.
inline constexpr LaunchSource kByHand{"RANK and WORLD_SIZE",  "RANK", "WORLD_SIZE", "LOCAL_RANK",
                                      "LOCAL_WORLD_SIZE",     "",     "",           "",
                                      LauncherLayer::kManager};
inline constexpr std::array<std::string_view, 4> kTorchIdentity{
    kByHand.rank, kByHand.size, kByHand.local_rank, kByHand.local_size};

/// In order of trust. Where launchers share names (PMI, RANK), the more telling row stands first.
inline constexpr std::array<LaunchSource, 11> kLaunchSources{{
    {"hvdrun", launch_env::kRank, launch_env::kSize, launch_env::kLocalRank, launch_env::kLocalSize,
     launch_env::kNode, "", "", LauncherLayer::kHvdrun},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK",
     "GROUP_WORLD_SIZE", "TORCHELASTIC_RUN_ID", LauncherLayer::kTorchrun},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "", "", "", LauncherLayer::kMpirun},
    {"Intel MPI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "", "",
     "I_MPI_HYDRA_UUID", LauncherLayer::kMpirun},
    {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "", "",
     "MPI_LOCALRANKID", LauncherLayer::kMpirun},
    {"Flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", "", "", "FLUX_JOB_NNODES", "",
     LauncherLayer::kFlux},
    {kSlurmStep, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "", "SLURM_NODEID",
     "SLURM_STEP_NUM_NODES", "", LauncherLayer::kManager},
    {kPmix, "PMIX_RANK", "", "", "", "", "", "", LauncherLayer::kManager},
    {"PALS", "PALS_RANKID", "", "PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE", "PALS_NODEID", "", "",
     LauncherLayer::kManager},
    {kPmi, "PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE", "", "", "",
     LauncherLayer::kManager},
    kByHand,
}};

}  // namespace hvd
