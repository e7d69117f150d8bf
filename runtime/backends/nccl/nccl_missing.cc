// SPDX-License-Identifier: Apache-2.0
// A build without headers of NCCL or RCCL.
#include "backends/nccl/nccl_backend.h"

namespace hvd {
namespace {

constexpr const char* kReason =
    "this build has no part for NCCL: its headers were missing when it was built "
    "(scripts/gpu_packages.sh brings them)";

Result<std::unique_ptr<Backend>> decline(const BackendContext& /*context*/) {
  return Status(Code::kUnsupported, kReason);
}

}  // namespace

const BackendEntry kNcclBackend = {.name = "nccl",
                                   .memory_bytes = [](int) { return std::size_t{0}; },
                                   .create = &decline,
                                   .on_gpu = true};

NcclBuild describe_nccl_build(const std::string& /*wanted*/) { return {false, kReason, 0}; }

}  // namespace hvd
