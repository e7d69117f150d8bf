// SPDX-License-Identifier: Apache-2.0
#include "launcher/env/elsewhere.h"

#include "base/format.h"
#include "launcher/plan/meeting.h"
#include "launcher/site/partition_facts.h"

namespace hvd {

SiteFacts facts_of_site(const SiteConfig& site, std::optional<int> gpus_per_node) {
  const SitePartition partition =
      site.partitions.empty() ? SitePartition() : site.partitions.front();
  SiteFacts facts = facts_of_partition(partition, gpus_per_node.value_or(partition.gpus_per_node));
  facts.container = false;
  facts.interfaces = bootstrap_interfaces(site, "");
  return facts;
}

void leave_out_counted(EnvReport& report) {
  std::erase_if(report.variables, [&](const PlannedVariable& variable) {
    if (variable.name != "OMP_NUM_THREADS" || variable.origin != "default") return false;
    report.unset.push_back({variable.name,
                            "",
                            variable.origin,
                            "cores of a rank: each task counts those that it has",
                            {}});
    return true;
  });
}

std::string elsewhere_text(const EnvReport& report) {
  const std::string partition = report.facts.partition.value_or("");
  return format_text(
      "site {} is not this machine: the variables are those of a node {}{}, fabric {}; what only "
      "the node shows is not in them (--nodes, --gpus and --fabric change it)",
      report.site.id, partition.empty() ? "there" : "of its partition ", partition,
      report.facts.fabric.value_or("not known"));
}

}  // namespace hvd
