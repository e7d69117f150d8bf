// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/cluster/live_cluster.h"
#include "launcher/job/job_plan.h"

namespace hvd {

/// What the live cluster has against a job that fits its site file, and where the two disagree on
/// the job's own partition and QoS: one sentence each. Pure.
std::vector<std::string> live_warnings(const SiteConfig& site, const JobPlan& plan,
                                       const LiveCluster& live);

}  // namespace hvd
