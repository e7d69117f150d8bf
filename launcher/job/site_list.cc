// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/site_list.h"

#include "launcher/site/site_catalog.h"

namespace hvd {

Result<std::string> describe_sites(const Environment& environment) {
  HVD_TRY_ASSIGN(const std::vector<SiteConfig> sites, all_sites(environment));
  std::string text;
  for (const SiteConfig& site : sites) {
    text += format_text("{:<12} {}{} [{}]\n", site.id, site.name,
                        site.retired.empty() ? "" : " (retired)", site.origin);
    for (const SitePartition& partition : site.partitions) {
      text +=
          format_text("  {:<10} {} {} per node, {} cores per task ({}, {}{}{})\n", partition.name,
                      partition.gpus_per_node, partition.gpu_model, partition.cores_per_task,
                      partition.provenance.source, partition.provenance.date,
                      partition.provenance.mark.empty() ? "" : ", ", partition.provenance.mark);
    }
  }
  return text;
}

}  // namespace hvd
