// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "launcher/cluster/live_cluster.h"

namespace hvd {

/// Reads what `sacctmgr --noheader --parsable2 show qos format=kQosFormat` prints. Lines with
/// another number of columns are left out. Pure.
std::vector<LiveQos> parse_qos(std::string_view text);

}  // namespace hvd
