// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"
#include "base/result.h"
#include "launcher/site/site.h"

namespace hvd {

/// Every site known: the files of the folders in HVD_SITE_PATH (colon-separated), then those
/// embedded in the binary; a file overrides the embedded site of the same id.
Result<std::vector<SiteConfig>> all_sites(const Environment& environment);

/// The site of that id or alias, or of that file (a name with a slash, or ending in ".json").
/// Unknown: kInvalidArgument with the list of the known ones.
Result<SiteConfig> find_site(const std::string& name, const Environment& environment);

/// The site this machine belongs to, by SLURM_CLUSTER_NAME, SYSTEMNAME and `hostname`; "generic"
/// when none claims it.
Result<SiteConfig> detect_site(const Environment& environment, std::string_view hostname);

}  // namespace hvd
