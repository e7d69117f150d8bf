// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hvd {

/// Has Slurm send the signal to the tasks of the step, "JOB.STEP"; does not wait for it. False:
/// there is no scancel.
bool signal_step(const std::string& step, int signal);

}  // namespace hvd
