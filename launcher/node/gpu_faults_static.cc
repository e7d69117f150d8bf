// SPDX-License-Identifier: Apache-2.0
#include "launcher/node/gpu_faults.h"

namespace hvd {

struct GpuFaults::Heard {};

// A static hvdrun loads no libraries: it hears of no faults.
void GpuFaults::listen(const std::string& /*library*/, const std::vector<std::string>& /*gpus*/) {}

std::string GpuFaults::explain_end(const std::string& /*gpu*/, Clock::time_point /*now*/) const {
  return "";
}

}  // namespace hvd
