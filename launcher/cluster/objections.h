// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "launcher/cluster/live_cluster.h"

namespace hvd {

/// What a job asks of the cluster; empty or absent: not said.
struct LiveRequest {
  std::string partition;  ///< May be a list: the job starts where it can first.
  std::string qos;
  std::optional<std::chrono::seconds> time;
  std::optional<int> nodes;
};

/// One reason why a job would not start.
struct LiveObjection {
  std::string option;  ///< Of sbatch, that is to blame: "time".
  std::string text;
};

/// Why the cluster, as it is now, would refuse the job or let it wait, one sentence each with what
/// to type. Pure.
std::vector<LiveObjection> live_objections(const LiveRequest& request, const LiveCluster& live);

}  // namespace hvd
