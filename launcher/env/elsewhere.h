// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "launcher/env/env_report.h"
#include "launcher/site/condition.h"
#include "launcher/site/site.h"

namespace hvd {

/// A node of the site's first partition, as `hvdrun script` takes it: for a site that this machine
/// is not of; with as many GPUs as it has, unless a number is given. What only the node itself
/// shows stays unknown (NCCL, its plugin, ports). Pure.
SiteFacts facts_of_site(const SiteConfig& site, std::optional<int> gpus_per_node = std::nullopt);

/// Puts the defaults that were counted on this machine among what is not set: cores of a rank.
/// Pure.
void leave_out_counted(EnvReport& report);

/// The sentence that says of which machine the variables are. Pure.
std::string elsewhere_text(const EnvReport& report);

}  // namespace hvd
