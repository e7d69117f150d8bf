// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"
#include "base/result.h"

namespace hvd {

/// What one launcher says about this process; -1 where it says nothing.
struct IdentityClaim {
  std::string source;  ///< "hvdrun", "Slurm step", "Open MPI", ...
  int rank = -1;
  int size = -1;
  int local_rank = -1;
  int local_size = -1;
  int node = -1;
  int node_count = -1;
  /// It describes a launcher around the one that started this process, not this process.
  bool outer = false;
};

/// Which rank of which job this process is, by the environment alone.
struct Identity {
  int rank = 0;
  int size = 0;         ///< 0: only the PMIx server knows it (PMIX_RANK was all there was).
  int local_rank = -1;  ///< -1: unknown, as below.
  int local_size = -1;
  int node = -1;
  int node_count = -1;
  std::string source;                  ///< The most trusted claim, which gave the rank.
  std::vector<IdentityClaim> details;  ///< All claims, in order of trust.
};

/// The identity of this process: nothing where no launcher made it a rank (a login shell, a batch
/// or salloc shell). All launchers that speak are compared; a conflict is kInvalidArgument naming
/// both variables and values. What a launcher around the nearest one says (the Slurm step of
/// mpirun's daemons), and what a server of another step left behind, is set aside.
Result<std::optional<Identity>> derive_identity(const Environment& environment);

/// "rank 3 of 4 by Slurm step, PMIx" (all that agree); "...; around it: Flux" where one is set
/// aside.
std::string describe_identity(const Identity& identity);

/// The launcher that made this process a rank, hvdrun aside: "Slurm step", "Open MPI", ...
std::string launcher_of(const Identity& identity);

/// True where the launcher of that name describes this process itself.
bool is_started_by(const Identity& identity, std::string_view source);

/// True in a task started by srun: SLURM_STEP_NUM_TASKS is there, the step id is a real one, and
/// the step's nodes are the job's.
bool in_slurm_step(const Environment& environment);

/// "JOB.STEP" of the step that this process is a task of; empty: Slurm does not say both.
std::string slurm_step_name(const Environment& environment);

/// HVD_RANK_OF in its parts.
struct RankMark {
  std::string step;       ///< For whose task hvdrun has set RANK and its like.
  bool is_right = false;  ///< RANK is still what it set.
};
RankMark read_rank_mark(const Environment& environment);

/// The variable of a launcher that speaks of several ranks where it gives this process none; empty:
/// there is none. Flux is left out: shells of its jobs have the size, too.
std::string_view size_without_rank(const Environment& environment);

/// True in a batch or salloc shell: a Slurm allocation, but no task of a step.
bool in_slurm_shell(const Environment& environment);

}  // namespace hvd
