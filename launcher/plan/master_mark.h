// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"
#include "launcher/site/planned_variable.h"

namespace hvd {

inline constexpr std::string_view kMasterAddress = "MASTER_ADDR";
inline constexpr std::string_view kMasterPort = "MASTER_PORT";

/// What HVD_MASTER_OF and HVD_RANK_OF mark as hvdrun's own for another step than `step`, and the
/// marks themselves. A value that was changed since is its user's. `step` empty: of any step.
std::vector<std::string> marked_for_other_steps(const Environment& environment,
                                                std::string_view step);

/// HVD_MASTER_OF for the tasks of `step`, who get `planned`; empty: none of the two is hvdrun's.
/// `user`: what they inherit, of which a mark of the same step holds further.
std::string mark_masters(const std::vector<PlannedVariable>& planned, const Environment& user,
                         const std::string& step);

/// HVD_RANK_OF for a task of `step` whose RANK hvdrun sets.
std::string mark_rank(const std::string& step, int rank);

}  // namespace hvd
