// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "launcher/site/site.h"

namespace hvd {

/// The longest time that a job of so many nodes may ask for in `partition`; empty: not said. Pure.
std::string max_time_for(const SitePartition& partition, int nodes);

}  // namespace hvd
