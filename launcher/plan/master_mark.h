// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"
#include "launcher/site/planned_variable.h"

namespace hvd {

inline constexpr std::string_view kMasterAddress = "MASTER_ADDR";
inline constexpr std::string_view kMasterPort = "MASTER_PORT";

/// "JOB.STEP" of the step that this process is a task of; empty: Slurm does not say both.
std::string slurm_step_name(const Environment& environment);

/// What HVD_MASTER_OF marks as hvdrun's own for another step than `step`, and the mark itself. A
/// value that was changed since is its user's. `step` empty: of any step.
std::vector<std::string> masters_of_other_steps(const Environment& environment,
                                                std::string_view step);

/// HVD_MASTER_OF for the tasks of `step`, who get `planned`; empty: none of the two is hvdrun's.
/// `user`: what they inherit, of which a mark of the same step holds further.
std::string mark_masters(const std::vector<PlannedVariable>& planned, const Environment& user,
                         const std::string& step);

}  // namespace hvd
