// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"
#include "launcher/options/run_options.h"
#include "launcher/plan/allocation.h"
#include "launcher/plan/machine_environment.h"
#include "launcher/plan/placement.h"
#include "launcher/site/planned_variable.h"

namespace hvd {

/// The ranks' variables beyond what they inherit, by name; the strongest origin won already:
/// command line > user environment > site > fabric > default.
struct EnvironmentPlan {
  std::vector<PlannedVariable> all;                      ///< For every rank.
  std::vector<std::vector<PlannedVariable>> each_rank;   ///< By index in Placement::ranks.
  std::vector<std::vector<PlannedVariable>> each_spare;  ///< By index in Elasticity::spares.
  std::vector<PlannedVariable> by_task;  ///< Placement::srun: what hvdrun in each task will add.
  std::vector<std::string> cleared;      ///< Inherited variables taken away.
  std::vector<UnsetVariable> unset;      ///< What site and fabric offer, and why it is not set.
};

/// What only the running hvdrun knows.
struct JobFacts {
  std::string store;             ///< HVD_STORE; empty: none.
  std::string key;               ///< HVD_JOB_KEY; empty: none.
  std::string marker;            ///< HVD_JOB_MARKER; empty: none.
  std::string losses;            ///< HVD_LOSS_PIPE; empty: none.
  std::string master_port = {};  ///< A free one of this machine, for MASTER_PORT; empty: none.
};

/// Decides every variable of every rank. Pure.
EnvironmentPlan plan_environment(const RunOptions& options, const Allocation& allocation,
                                 const MachineEnvironment& machine, const Placement& placement,
                                 const JobFacts& job);

/// "NAME=value" of a rank or spare whose own variables these are, sorted by name.
std::vector<std::string> rank_environment(const EnvironmentPlan& plan, const Environment& inherited,
                                          const std::vector<PlannedVariable>& own);

}  // namespace hvd
