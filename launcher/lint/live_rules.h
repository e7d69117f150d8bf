// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "launcher/cluster/live_cluster.h"
#include "launcher/lint/finding.h"
#include "launcher/lint/sbatch_file.h"
#include "launcher/site/site.h"

namespace hvd {

/// What the live cluster has against a script, and where the site file by which it was judged says
/// otherwise about its partition and QoS. Pure.
std::vector<Finding> check_live(const SbatchFile& file, const SiteConfig& site,
                                const LiveCluster& live);

}  // namespace hvd
