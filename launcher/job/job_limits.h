// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/job/job_size.h"
#include "launcher/options/job_options.h"
#include "launcher/site/site.h"

namespace hvd {

/// The QoS that the header names: the one typed; else, unless Slurm takes the partition's first
/// unasked, the first that has room for the job. Empty: none.
std::string plan_qos(const SitePartition& partition, const JobOptions& request,
                     const JobSize& size);

/// The time limit that the header carries (where none is typed the site's, cut to what the QoS
/// allows, else what the partition gives; empty: none), after QoS, time and size were held against
/// the partition's limits.
Result<std::string> plan_time(const SiteConfig& site, const SitePartition& any_size,
                              const JobOptions& request, const JobSize& size);

/// Whether jobs of that QoS get parts of nodes, whatever the partition says. Pure.
bool shares_nodes(const SitePartition& partition, const std::string& qos);

/// What a user types after --time: "H:MM:SS, 12:00:00 at most". Pure.
std::string missing_time(const SitePartition& partition, int nodes);

/// Sentences on limits of the QoS (empty: the default one) that the job breaks and that are merely
/// assumed; others are errors of plan_time. Pure.
std::vector<std::string> limit_notes(const SitePartition& partition, const std::string& qos,
                                     const JobSize& size);

/// The account as the site writes it: its GPU suffix appended, its pattern checked.
Result<std::string> plan_account(const SiteConfig& site, const SitePartition& partition,
                                 const std::string& typed);

}  // namespace hvd
