// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

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

/// The groups of the JSON text that hvd_build_info() returns.
Result<std::vector<CheckedGroup>> parse_build_info(std::string_view text);

std::string report_text(const CheckReport& report);
std::string report_json(const CheckReport& report);

}  // namespace hvd
