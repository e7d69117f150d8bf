// SPDX-License-Identifier: Apache-2.0
#include "launcher/site/partition_facts.h"

namespace hvd {

std::string_view gpu_vendor(std::string_view model) {
  const bool is_amd = model.starts_with("MI") || model.find("AMD") != std::string_view::npos;
  return is_amd ? "amd" : "nvidia";
}

SiteFacts facts_of_partition(const SitePartition& partition, int gpus_per_node) {
  SiteFacts facts;
  facts.gpus_per_node = gpus_per_node;
  if (!partition.name.empty()) facts.partition = partition.name;
  if (!partition.fabric_kind.empty()) facts.fabric = partition.fabric_kind;
  if (gpus_per_node > 0 && !partition.gpu_model.empty()) {
    facts.gpu_vendor = gpu_vendor(partition.gpu_model);
  }
  return facts;
}

}  // namespace hvd
