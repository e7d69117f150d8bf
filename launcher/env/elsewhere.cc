// SPDX-License-Identifier: Apache-2.0
#include "launcher/env/elsewhere.h"

#include "base/format.h"
#include "launcher/plan/meeting.h"

namespace hvd {

SiteFacts facts_of_site(const SiteConfig& site) {
  SiteFacts facts;
  facts.container = false;
  facts.interfaces = bootstrap_interfaces(site, "");
  if (site.partitions.empty()) return facts;
  const SitePartition& partition = site.partitions.front();
  facts.gpus_per_node = partition.gpus_per_node;
  if (!partition.name.empty()) facts.partition = partition.name;
  if (!partition.fabric_kind.empty()) facts.fabric = partition.fabric_kind;
  const std::string& model = partition.gpu_model;
  if (!model.empty()) {
    const bool is_amd = model.starts_with("MI") || model.find("AMD") != std::string::npos;
    facts.gpu_vendor = is_amd ? "amd" : "nvidia";
  }
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
