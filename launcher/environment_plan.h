// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/environment.h"
#include "launcher/allocation.h"
#include "launcher/options.h"
#include "launcher/placement.h"

namespace hvd {

/// One variable that the ranks get, and who wanted it.
struct PlannedVariable {
  std::string name;
  std::string value;
  std::string origin;  ///< "command line", "user environment", "site X", "fabric", "default", ...
  std::string why;
  bool is_secret = false;  ///< Printed as "(redacted)".
};

/// The ranks' variables beyond what they inherit, by name; the strongest origin won already:
/// command line > user environment > site > fabric > default.
struct EnvironmentPlan {
  std::vector<PlannedVariable> all;                     ///< For every rank.
  std::vector<std::vector<PlannedVariable>> each_rank;  ///< By index in Placement::ranks.
  std::vector<std::string> cleared;                     ///< Inherited variables taken away.
};

/// What only the running hvdrun knows.
struct JobFacts {
  std::string store;   ///< HVD_STORE; empty: none.
  std::string key;     ///< HVD_JOB_KEY; empty: none.
  std::string marker;  ///< HVD_JOB_MARKER; empty: none.
};

/// Variables from a weaker origin than the user: sites and fabrics.
struct OfferedVariable {
  std::string name;
  std::string value;
  std::string origin;
  std::string why;
};

/// Decides every variable of every rank. Pure.
EnvironmentPlan plan_environment(const RunOptions& options, const Allocation& allocation,
                                 const Placement& placement,
                                 const std::vector<OfferedVariable>& offered, const JobFacts& job);

/// "NAME=value" of the rank at `index`, sorted by name.
std::vector<std::string> rank_environment(const EnvironmentPlan& plan, const Environment& inherited,
                                          std::size_t index);

}  // namespace hvd
