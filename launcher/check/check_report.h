// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launcher/node/nvml.h"

namespace hvd {

/// One backend, bootstrap or library: there, or why not in one sentence.
struct CheckedPart {
  std::string name;
  bool available = false;
  std::string reason;
};

struct CheckedGroup {
  std::string name;
  std::vector<CheckedPart> parts;
};

/// What `hvdrun check --build` says.
struct CheckReport {
  std::string version;   ///< Of hvdrun.
  std::string revision;  ///< Of its source.
  std::vector<CheckedGroup> groups;
};

/// Whether NCCL copies from GPU to GPU within this machine, or through host memory.
CheckedPart describe_peer_access(const PeerAccess& access);

/// The groups of the JSON text that hvd_build_info() returns.
Result<std::vector<CheckedGroup>> parse_build_info(std::string_view text);

std::string report_text(const CheckReport& report);
std::string report_json(const CheckReport& report);

}  // namespace hvd
