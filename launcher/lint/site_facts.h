// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/lint/finding.h"
#include "launcher/lint/job_request.h"
#include "launcher/lint/sbatch_file.h"
#include "launcher/site/site.h"

namespace hvd {

/// The partition that a job goes to, by --partition, --constraint, or the site's default; null:
/// the site's file does not know it.
const SitePartition* partition_of_job(const SiteConfig& site, const JobRequest& request);

/// The partition of that name or alias; null: none.
const SitePartition* find_partition(const SiteConfig& site, const std::string& name);

/// The partition that this list of features chooses; null: none.
const SitePartition* find_by_constraint(const SiteConfig& site, const std::string& constraint);

/// The QoS of that name, or the default one of an empty name; null: none.
const SiteQos* find_qos(const SitePartition& partition, const std::string& name);

/// Cores of a node that a job may use; absent: the site does not say.
std::optional<int> usable_cores(const SitePartition& partition);

/// "SOURCE, DATE", with "(assumed)" where it is.
std::string provenance_text(const Provenance& provenance);

/// The finding as that value's: its source; an error becomes a warning where the value is assumed.
Finding held_against(Finding finding, const Provenance& provenance);

/// The one site whose own names (QoS, partitions, accounts, modules) the file holds most of; null:
/// none, or several.
const SiteConfig* site_of_script(const std::vector<SiteConfig>& sites, const SbatchFile& file);

}  // namespace hvd
