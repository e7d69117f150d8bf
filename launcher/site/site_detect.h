// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/environment.h"
#include "base/result.h"
#include "launcher/site/site_index.h"

namespace hvd {

/// What tells where hvdrun runs.
struct HostFacts {
  std::string hostname;
  std::vector<std::string> domains;  ///< Of the host, the most specific first.
  std::string cluster = {};          ///< ClusterName of its slurm.conf; empty: not known.
};

/// The domains of this machine: after the first dot of `hostname`, else those that
/// /etc/resolv.conf searches; and the cluster that its slurm.conf names.
HostFacts read_host_facts(std::string hostname, const Environment& environment);

/// The site that claims this machine, and by what.
struct SiteClaim {
  const SiteEntry* entry = nullptr;
  std::string evidence;  ///< "SLURM_CLUSTER_NAME=jean-zay", "host name jean-zay3 matches ..."
};

/// In this order over all sites: their variables (SYSTEMNAME among them), SLURM_CLUSTER_NAME, the
/// cluster of slurm.conf, the host name, the domain; of two sites the first of the index. Pure.
Result<std::optional<SiteClaim>> claim_site(const std::vector<SiteEntry>& entries,
                                            const Environment& environment, const HostFacts& host);

}  // namespace hvd
