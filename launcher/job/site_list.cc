// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/site_list.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launcher/console/message.h"
#include "launcher/console/words.h"
#include "launcher/site/site_catalog.h"

namespace hvd {
namespace {

using OrderedJson = nlohmann::ordered_json;

/// "qos_gpu-t3 (20:00:00)"
std::string text_of(const SiteQos& qos) {
  if (qos.max_time.empty()) return qos.is_default ? qos.name + " (the default)" : qos.name;
  return format_text("{} ({}{})", qos.name, qos.max_time, qos.is_default ? ", the default" : "");
}

/// "up to 4-00:00:00, 01:00:00 by default; QoS a (20:00:00), b"; empty: the site says nothing.
std::string limits_of(const SitePartition& partition) {
  std::vector<std::string> parts;
  std::string time = partition.max_time.empty() ? "" : "up to " + partition.max_time;
  if (!partition.default_time.empty()) {
    time += (time.empty() ? "" : ", ") + partition.default_time + " by default";
  }
  if (!time.empty()) parts.push_back(time);
  std::vector<std::string> names;
  for (const SiteQos& qos : partition.qos) names.push_back(text_of(qos));
  if (!names.empty()) parts.push_back("QoS " + joined(names, ", "));
  return joined(parts, "; ");
}

std::string text_of(const SitePartition& partition, std::size_t width) {
  const std::string gpus =
      partition.gpus_per_node == 0
          ? "no GPUs"
          : format_text("{} {} per node", partition.gpus_per_node, partition.gpu_model);
  std::string text =
      format_text("  {:<{}} {}, {} cores per task ({}, {}{}{})\n", partition.name, width, gpus,
                  partition.cores_per_task, partition.provenance.source, partition.provenance.date,
                  partition.provenance.mark.empty() ? "" : ", ", partition.provenance.mark);
  const std::string limits = limits_of(partition);
  if (!limits.empty()) text += format_text("  {:<{}} {}\n", "", width, limits);
  return text;
}

std::string text_of(const std::vector<SiteConfig>& sites) {
  std::size_t ids = 0;
  std::size_t names = 0;
  for (const SiteConfig& site : sites) {
    ids = std::max(ids, site.id.size());
    for (const SitePartition& partition : site.partitions) {
      names = std::max(names, partition.name.size());
    }
  }
  std::string text;
  for (const SiteConfig& site : sites) {
    text += format_text("{:<{}} {}{} [{}]\n", site.id, ids, site.name,
                        site.retired.empty() ? "" : " (retired)", site.origin);
    for (const SitePartition& partition : site.partitions) text += text_of(partition, names);
  }
  return text;
}

OrderedJson json_of(const std::vector<SiteQos>& list) {
  OrderedJson json = OrderedJson::array();
  for (const SiteQos& qos : list) {
    json.push_back({{"name", qos.name}, {"max_time", qos.max_time}, {"default", qos.is_default}});
  }
  return json;
}

OrderedJson json_of(const SitePartition& partition) {
  return {{"name", partition.name},
          {"gpus_per_node", partition.gpus_per_node},
          {"gpu_model", partition.gpu_model},
          {"cores_per_task", partition.cores_per_task},
          {"default_time", partition.default_time},
          {"max_time", partition.max_time},
          {"qos", json_of(partition.qos)},
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
  // The path of a file may hold any bytes: what is not UTF-8 is replaced.
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace

Result<std::string> describe_sites(const Environment& environment, const std::string& site,
                                   bool as_json) {
  std::vector<std::string> warnings;
  std::vector<SiteConfig> sites;
  if (site.empty()) {
    HVD_TRY_ASSIGN(sites, all_sites(environment, warnings));
  } else {
    HVD_TRY_ASSIGN(sites.emplace_back(), find_site(site, environment));
    warnings = sites.front().warnings;
  }
  print_messages(warnings);
  return as_json ? json_of(sites) : text_of(sites);
}

}  // namespace hvd
