// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "launcher/site/condition.h"
#include "launcher/site/site.h"

namespace hvd {

/// Who makes the GPUs that a site file calls so, as in "gpu=amd": "amd" or "nvidia". Pure.
std::string_view gpu_vendor(std::string_view model);

/// What a site file says of the nodes of `partition` to a job with so many GPUs on each; without
/// GPUs they have no vendor. Pure.
SiteFacts facts_of_partition(const SitePartition& partition, int gpus_per_node);

}  // namespace hvd
