// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/result.h"
#include "launcher/options/job_options.h"
#include "launcher/site/site.h"

namespace hvd {

/// How many nodes, and what each of them gives.
struct JobSize {
  int nodes = 1;
  int tasks_per_node = 1;
  int gpus_per_node = 0;
  int cores_per_task = 0;  ///< 0: not asked for.
  std::string note;        ///< What was decided that the user may not expect; empty: nothing.

  int gpus() const { return nodes * gpus_per_node; }
  int tasks() const { return nodes * tasks_per_node; }
};

/// The partition that `request` names, by name, alias or constraint; else the site's first.
/// A site that lists none takes any.
Result<SitePartition> choose_partition(const SiteConfig& site, const JobOptions& request);

/// One rank per GPU, on whole nodes, on a part of a single one, or evenly over the fewest nodes
/// that hold the GPUs. What cannot be is refused with what can.
Result<JobSize> plan_size(const SiteConfig& site, const SitePartition& partition,
                          const JobOptions& request);

}  // namespace hvd
