// SPDX-License-Identifier: Apache-2.0
#include "launcher/cluster/site_look.h"

#include "base/format.h"
#include "bootstrap/local_host.h"
#include "launcher/cluster/differences.h"
#include "launcher/cluster/read_cluster.h"
#include "launcher/site/site_detect.h"
#include "launcher/site/slurm_conf.h"

namespace hvd {

bool is_site_here(const SiteConfig& site, const Environment& environment) {
  if (site.detect.is_empty()) return !slurm_conf_path(environment).empty();
  SiteEntry entry;
  entry.id = site.id;
  entry.detect = site.detect;
  entry.origin = site.origin;
  const auto claim =
      claim_site({entry}, environment, read_host_facts(local_host_name(), environment));
  return claim.is_ok() && claim.value().has_value();
}

SiteLook look_at_site(const SiteConfig& site, const Environment& environment) {
  if (site.scheduler.kind != "slurm" || !is_site_here(site, environment)) return {};
  const auto answer = read_live_cluster({}, environment, Deadline::after(kShortLook));
  if (!answer.is_ok()) {
    if (answer.status().code() == Code::kUnsupported) return {};
    return {.problem = format_text("the limits that the cluster has now are not known: {}",
                                   answer.status().message())};
  }
  const LiveCluster& live = answer.value().cluster;
  if (!is_of_cluster(site, live)) return {};
  return {.live = live};
}

}  // namespace hvd
