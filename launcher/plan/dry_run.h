// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/plan/command.h"
#include "launcher/plan/environment_plan.h"
#include "launcher/plan/placement.h"

namespace hvd {

/// What `--dry-run` prints: placement, every variable with its origin, the command per node. With a
/// `width` what is said of variables is wrapped to so many columns; 0: not.
std::string describe_run(const Placement& placement, const EnvironmentPlan& plan,
                         const std::vector<Command>& commands, std::size_t width = 0);

/// The same for programs: `--dry-run --json`. Secrets are left out.
std::string describe_run_json(const Placement& placement, const EnvironmentPlan& plan,
                              const std::vector<Command>& commands);

}  // namespace hvd
