// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/site_list.h"

#include <nlohmann/json.hpp>

#include "launcher/console/message.h"
#include "launcher/site/site_catalog.h"

namespace hvd {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::string text_of(const std::vector<SiteConfig>& sites) {
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

OrderedJson json_of(const SitePartition& partition) {
  return {{"name", partition.name},
          {"gpus_per_node", partition.gpus_per_node},
          {"gpu_model", partition.gpu_model},
          {"cores_per_task", partition.cores_per_task},
          {"source", partition.provenance.source},
          {"date", partition.provenance.date},
          {"mark", partition.provenance.mark}};
}

std::string json_of(const std::vector<SiteConfig>& sites) {
  OrderedJson json{{"sites", OrderedJson::array()}};
  for (const SiteConfig& site : sites) {
    OrderedJson one{{"id", site.id},           {"name", site.name},
                    {"aliases", site.aliases}, {"origin", site.origin},
                    {"retired", nullptr},      {"partitions", OrderedJson::array()}};
    if (!site.retired.empty()) one["retired"] = site.retired;
    for (const SitePartition& partition : site.partitions) {
      one["partitions"].push_back(json_of(partition));
    }
    json["sites"].push_back(std::move(one));
  }
  // The path of a file may hold any bytes: what is no UTF-8 is replaced.
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace

Result<std::string> describe_sites(const Environment& environment, bool as_json) {
  std::vector<std::string> warnings;
  HVD_TRY_ASSIGN(const std::vector<SiteConfig> sites, all_sites(environment, warnings));
  print_messages(warnings);
  return as_json ? json_of(sites) : text_of(sites);
}

}  // namespace hvd
