// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/result.h"
#include "launcher/options/header_options.h"
#include "launcher/site/site.h"

namespace hvd {

/// How many nodes, and what each of them gives.
struct HeaderSize {
  int nodes = 1;
  int tasks_per_node = 1;
  int gpus_per_node = 0;
  int cores_per_task = 0;  ///< 0: not asked for.
};

/// The partition that `request` names, by name, alias or constraint; else the site's first.
/// A site that lists none takes any.
Result<SitePartition> choose_partition(const SiteConfig& site, const HeaderOptions& request);

/// One rank per GPU, on whole nodes or on a part of a single one.
Result<HeaderSize> plan_size(const SiteConfig& site, const SitePartition& partition,
                             const HeaderOptions& request);

}  // namespace hvd
