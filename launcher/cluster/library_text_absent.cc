// SPDX-License-Identifier: Apache-2.0
#include "launcher/cluster/library_text.h"

namespace hvd {
namespace {

constexpr const char* kAbsent = "this hvdrun was built without libslurm";

}  // namespace

std::string slurm_library_name() { return ""; }

std::string slurm_library_problem() { return kAbsent; }

Result<std::string> ask_slurm_library(const LiveQuestion& /*question*/, Deadline /*deadline*/) {
  return error(Code::kUnsupported, "{}", kAbsent);
}

}  // namespace hvd
