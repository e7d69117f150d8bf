// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/environment.h"
#include "launcher/check/check_report.h"
#include "launcher/cluster/read_cluster.h"
#include "launcher/site/site.h"

namespace hvd {

/// Asks the live cluster: who was asked and why, what it is, where the site file of this machine
/// says otherwise, and in a job the time left.
CheckedGroup check_cluster(const Environment& environment);

/// The same of an answer. Pure.
CheckedGroup describe_cluster(const SiteConfig& site, const LiveAnswer& answer);

}  // namespace hvd
