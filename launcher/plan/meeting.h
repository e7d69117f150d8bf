// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/environment.h"
#include "launcher/plan/allocation.h"
#include "launcher/site/site.h"
#include "launcher/site/site_environment.h"

namespace hvd {

/// What this process knows of where the ranks of its step can find each other.
struct MeetingFacts {
  std::string partition;  ///< Of the job; empty: not known.
  /// Interfaces of this node that other nodes may reach; absent: those that the site names count.
  std::optional<std::vector<std::string>> interfaces;
  std::string first_host;   ///< Node of rank 0; empty: not known.
  std::string no_host;      ///< Why it is not; empty: nobody asks for it here.
  std::optional<int> port;  ///< For MASTER_PORT; absent: the tasks know it.
};

/// Reads it. `looks`: at this node's interfaces, which costs a file for each; not where nobody
/// asks, nor where a typed fabric says that this node is not like those of the job.
MeetingFacts read_meeting(const Allocation& allocation, bool looks);

/// The interfaces that the site names for it in that partition; of an unknown one, its default's.
std::vector<std::string> bootstrap_interfaces(const SiteConfig& site, const std::string& partition);

/// What follows from the site's `bootstrap_if`, for libhvd, NCCL and Gloo, on more than one node.
/// Pure.
OfferedEnvironment offer_interfaces(const SiteConfig& site, const SiteFacts& facts,
                                    const MeetingFacts& meeting, bool assume);

/// MASTER_ADDR, with the site's `master_addr_suffix`, and MASTER_PORT, for torch.distributed. Pure.
OfferedEnvironment offer_master(const SiteConfig& site, const SiteFacts& facts,
                                const MeetingFacts& meeting, bool assume);

}  // namespace hvd
