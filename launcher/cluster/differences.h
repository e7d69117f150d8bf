// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/cluster/live_cluster.h"
#include "launcher/site/site.h"

namespace hvd {

/// One value on which the site file and the live cluster disagree.
struct SiteDifference {
  std::string partition;  ///< Empty: of the site as a whole.
  std::string qos;        ///< Empty: of the partition.
  std::string text;       ///< Both values, and where the file has its own from.
};

/// Whether the site file is one of this cluster, as far as their names say. Pure.
bool is_of_cluster(const SiteConfig& site, const LiveCluster& live);

/// Every value that both have and that differs, in the order of the site file. What one of them
/// does not say is not a difference. Pure.
std::vector<SiteDifference> site_differences(const SiteConfig& site, const LiveCluster& live);

}  // namespace hvd
