// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/site/planned_variable.h"
#include "launcher/site/site.h"

namespace hvd {

/// What the conditions of a site's variables ask about.
struct SiteFacts {
  int nodes = 1;
  int gpus_per_node = 0;
};

/// The variables that `site` sets under `facts`, in the order of its file.
std::vector<PlannedVariable> site_environment(const SiteConfig& site, const SiteFacts& facts);

}  // namespace hvd
