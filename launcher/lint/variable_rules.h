// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "launcher/lint/finding.h"
#include "launcher/lint/machine_facts.h"
#include "launcher/lint/set_variable.h"

namespace hvd {

/// Names: not known, removed, renamed, outdated, too new for the NCCL here, hvdrun's own.
/// `machine` is null for a script, which will run elsewhere.
std::vector<Finding> check_variable_names(const std::vector<SetVariable>& variables,
                                          const MachineFacts* machine);

/// Values that the reader takes for nothing, each by itself.
std::vector<Finding> check_variable_values(const std::vector<SetVariable>& variables);

/// Variables that undo each other.
std::vector<Finding> check_variable_conflicts(const std::vector<SetVariable>& variables);

/// Values that name devices: NCCL_IB_HCA, NCCL_SOCKET_IFNAME and their like.
std::vector<Finding> check_variable_devices(const std::vector<SetVariable>& variables,
                                            const MachineFacts* machine);

/// All of the above, by line.
std::vector<Finding> check_variables(const std::vector<SetVariable>& variables,
                                     const MachineFacts* machine);

}  // namespace hvd
