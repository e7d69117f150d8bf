// SPDX-License-Identifier: Apache-2.0
#include "launcher/check/check_cluster.h"

#include <algorithm>

#include "bootstrap/local_host.h"
#include "launcher/cluster/differences.h"
#include "launcher/site/site_catalog.h"
#include "launcher/site/time_limit.h"

namespace hvd {
namespace {

CheckedPart describe_live(const LiveCluster& live) {
  const LivePartition* usual = live.default_partition();
  return {"cluster", true,
          format_text("{}, Slurm {}: {} partition{}{}, {} QoS", live.name, live.version,
                      live.partitions.size(), live.partitions.size() == 1 ? "" : "s",
                      usual == nullptr ? "" : ", default " + usual->name, live.qos.size())};
}

/// Partitions that the site file does not list, in one sentence; empty: none.
std::string unlisted(const SiteConfig& site, const LiveCluster& live) {
  std::string names;
  for (const LivePartition& partition : live.partitions) {
    const bool is_listed = std::any_of(
        site.partitions.begin(), site.partitions.end(), [&](const SitePartition& listed) {
          return listed.name == partition.name ||
                 std::find(listed.aliases.begin(), listed.aliases.end(), partition.name) !=
                     listed.aliases.end();
        });
    if (!is_listed && !partition.is_hidden) names += (names.empty() ? "" : ", ") + partition.name;
  }
  return names;
}

std::vector<CheckedPart> hold_against(const SiteConfig& site, const LiveCluster& live) {
  if (site.partitions.empty()) {
    return {{"site file", false,
             format_text("{} lists no partition: 'hvdrun sites new' drafts a file of this cluster",
                         site.id)}};
  }
  if (!is_of_cluster(site, live)) {
    return {{"site file", false, format_text("{} is of another cluster", site.id)}};
  }
  std::vector<CheckedPart> parts;
  for (const SiteDifference& difference : site_differences(site, live)) {
    parts.push_back({"site file", false, format_text("{}: {}", site.id, difference.text)});
  }
  if (parts.empty()) {
    parts.push_back({"site file", true, format_text("{} says the same as the cluster", site.id)});
  }
  if (const std::string names = unlisted(site, live); !names.empty()) {
    parts.push_back({"site file", true, format_text("{} leaves out {}", site.id, names)});
  }
  return parts;
}

CheckedPart describe_time_left(const JobStatus& job) {
  std::string text = describe_job(job, "");
  if (job.time_left) text += format_text(", {} left", time_limit_text(*job.time_left));
  return {"job", true, std::move(text)};
}

}  // namespace

CheckedGroup describe_cluster(const SiteConfig& site, const LiveAnswer& answer) {
  CheckedGroup group{"cluster", {{"asked", true, answer.source}}};
  group.parts.push_back(describe_live(answer.cluster));
  for (const std::string& note : answer.notes) group.parts.push_back({"QoS", false, note});
  for (CheckedPart& part : hold_against(site, answer.cluster)) {
    group.parts.push_back(std::move(part));
  }
  for (const JobStatus& job : answer.cluster.jobs) group.parts.push_back(describe_time_left(job));
  return group;
}

CheckedGroup check_cluster(const Environment& environment) {
  const LiveQuestion question{.nodes = true, .job = environment.get("SLURM_JOB_ID").value_or("")};
  const auto answer = read_live_cluster(question, environment, Deadline::after(kLongLook));
  if (!answer.is_ok()) return {"cluster", {{"asked", false, answer.status().message()}}};
  const auto site = detect_site(environment, local_host_name());
  if (!site.is_ok()) return {"cluster", {{"site file", false, site.status().message()}}};
  return describe_cluster(site.value(), answer.value());
}

}  // namespace hvd
