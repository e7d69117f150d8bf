// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/site/condition.h"
#include "launcher/site/planned_variable.h"
#include "launcher/site/site.h"

namespace hvd {

/// The variables that `site` sets under `facts`, in the order of its file; of two with one name the
/// first whose condition holds. Assumed values are left out.
std::vector<PlannedVariable> site_environment(const SiteConfig& site, const SiteFacts& facts);

}  // namespace hvd
