// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/site.h"

namespace hvd {

/// One variable for the ranks, with its origin and reason for `--dry-run`.
struct EnvironmentSetting {
  std::string name;
  std::string value;
  std::string origin;  ///< "site jean-zay"
  std::string why;
};

/// What the conditions of a site's variables ask about.
struct SiteFacts {
  int nodes = 1;
  int gpus_per_node = 0;
};

/// Whether a condition ("always", "nodes>1", "gpus>0", "historical") holds.
bool site_condition_holds(const std::string& when, const SiteFacts& facts);

/// The variables that `site` sets under `facts`, in the order of its file.
std::vector<EnvironmentSetting> site_environment(const SiteConfig& site, const SiteFacts& facts);

}  // namespace hvd
