// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace hvd {

/// Has Slurm send the signal to the tasks of the steps, each "JOB.STEP"; does not wait for it.
/// False: there is no scancel.
bool signal_steps(const std::vector<std::string>& steps, int signal);

}  // namespace hvd
