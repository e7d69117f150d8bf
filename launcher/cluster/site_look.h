// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "base/environment.h"
#include "launcher/cluster/live_cluster.h"
#include "launcher/site/site.h"

namespace hvd {

/// Whether this machine is one of `site`: by what the site is recognised by; a site without such
/// marks is any that has a slurm.conf.
bool is_site_here(const SiteConfig& site, const Environment& environment);

/// The live cluster of a site, for a command that works without it as well.
struct SiteLook {
  std::optional<LiveCluster> live = {};
  std::string problem = {};  ///< One sentence to print: why it is not known, where that is news.
};

/// Asks the cluster. Nothing where this machine is not of the site, or where Slurm is not here.
SiteLook look_at_site(const SiteConfig& site, const Environment& environment);

}  // namespace hvd
