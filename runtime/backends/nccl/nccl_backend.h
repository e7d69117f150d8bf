// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "collective/backend.h"

namespace hvd {

/// "nccl": GPU memory, in stream order. Declines in a build without the headers of a vendor.
extern const BackendEntry kNcclBackend;

/// What this build has of it. No NCCL is loaded for the answer: a framework that is imported later
/// may bring its own.
struct NcclBuild {
  bool is_there = false;
  std::string reason;  ///< Which library would be used and why, or what was missing.
  int version = 0;     ///< nccl_version_here(); 0 where it is not there.
};
NcclBuild describe_nccl_build(const std::string& wanted);

}  // namespace hvd
