// SPDX-License-Identifier: Apache-2.0
#include "launcher/site/site_limits.h"

namespace hvd {

std::string max_time_for(const SitePartition& partition, int nodes) {
  const SiteTimeByNodes* tightest = nullptr;
  for (const SiteTimeByNodes& limit : partition.max_time_by_nodes) {
    if (nodes > limit.nodes) continue;
    if (tightest == nullptr || limit.nodes < tightest->nodes) tightest = &limit;
  }
  return tightest == nullptr ? partition.max_time : tightest->max_time;
}

}  // namespace hvd
