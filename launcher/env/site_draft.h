// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/result.h"
#include "launcher/cluster/live_cluster.h"

namespace hvd {

struct DraftFacts {
  LiveCluster live;  ///< With its nodes.
  std::string id;    ///< Empty: the cluster's name.
  std::string date;  ///< Of today.
};

/// The text of a site file of that cluster, which passes the checks of one: each value is marked
/// "seen" where the cluster says it, and "assumed" where it is a guess. kInvalidArgument: the id is
/// none, or the cluster has no partition with nodes. Pure.
Result<std::string> draft_site(const DraftFacts& facts);

}  // namespace hvd
