// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/check/check_report.h"

namespace hvd {

/// libhvd: its part, and when it was found the groups it tells about itself.
struct RuntimeFound {
  CheckedPart part;
  std::vector<CheckedGroup> groups;
};
/// Looks for it as `named` (HVD_LIBRARY; empty: unset), beside hvdrun, in the build tree and by the
/// loader.
RuntimeFound check_runtime(const std::string& named);

/// The libraries of this machine that hvdrun and libhvd load at run time. Each is opened, and
/// nothing in it is called: libslurm and the MPIs are not initialised. Where there are several GPUs
/// NVML is asked whether they reach each other.
CheckedGroup check_machine();

}  // namespace hvd
