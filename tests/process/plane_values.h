// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hvd_test {

/// The rank that mpirun gave this process, before anything is initialised; -1 without one.
int launched_rank();
/// Makes rank r of this job a rank of virtual node r * nodes / size, before hvd starts.
void live_on_virtual_nodes(int nodes);

/// Runs allreduce, allgather and broadcast of many sizes over the running hvd, and compares each
/// element. The first difference, or "" when there is none. Throws hvd::Error.
std::string wrong_values(const std::string& prefix);

}  // namespace hvd_test
