// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/environment.h"
#include "base/result.h"
#include "launcher/options/run_options.h"
#include "launcher/plan/environment_plan.h"
#include "launcher/plan/placement.h"
#include "launcher/site/site.h"
#include "topology/cpu_set.h"

namespace hvd {

/// One process to start on this machine, ready for execve.
struct Command {
  std::optional<int> rank;             ///< Absent: srun, around all ranks. Of a spare its number.
  std::string host;                    ///< For messages.
  std::string program;                 ///< Path to execute; the launcher finds it by name.
  std::vector<std::string> arguments;  ///< The first is the program as typed.
  std::vector<std::string> variables;  ///< "NAME=value"
  CpuSet cpus;                         ///< Empty: as inherited.
  std::vector<int> memory_numas;       ///< NUMA nodes to take memory from first; empty: any.
  bool is_spare = false;               ///< Without a rank: SIGUSR1 and SIGUSR2 are not for it.
  bool starts_later = false;           ///< Of a place for processes that come, by restarted().
  bool takes_stdin = false;
  int first_process = 0;         ///< Of srun, in an elastic job: which its task 0 is.
  bool speaks_for_node = false;  ///< Says what fails for all ranks of its node alike.
};

/// "rank 3", or "srun".
std::string describe_command(const Command& command);

/// The command that starts a lost process again where it was, as the process of that number, which
/// has no rank yet.
Command restarted(const Command& lost, int process);

/// Where processes of an elastic job start later.
struct LaterStep {
  std::string host;
  int tasks = 1;
  int first_process = 0;  ///< Which task 0 is.
};

/// The srun that starts processes on one node of the job of Slurm, beside that of the others.
Command later_srun(const Command& srun, const LaterStep& step);

/// How many of them start at once.
std::size_t commands_to_start(const std::vector<Command>& commands);

/// The program that the ranks are: its path, or as typed where srun starts them.
const std::string& ranks_program(const Command& command);

/// The commands of this machine: one per rank, or the one srun (Placement::srun).
/// `self` is the path of hvdrun; `site` says what it wants of srun.
std::vector<Command> build_commands(const RunOptions& options, const Placement& placement,
                                    const EnvironmentPlan& plan, const SiteConfig& site,
                                    const Environment& environment, const std::string& self);

}  // namespace hvd
