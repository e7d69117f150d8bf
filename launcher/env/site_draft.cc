// SPDX-License-Identifier: Apache-2.0
#include "launcher/env/site_draft.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launcher/site/site_file.h"
#include "launcher/site/time_limit.h"

namespace hvd {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr const char* kAsked = "cluster";  ///< Key of what the cluster said.
constexpr const char* kGuess = "guess";    ///< Key of what follows from nothing.

bool is_latin(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_figure(char c) { return c >= '0' && c <= '9'; }

/// What the schema calls a word.
bool is_word(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return is_latin(c) || is_figure(c) || std::string_view("_.+@-").find(c) != std::string::npos;
  });
}

/// An id: the cluster's name in the letters that ids have.
std::string id_of(const std::string& name) {
  std::string id;
  for (const char c : name) {
    if (is_latin(c)) {
      id += static_cast<char>(c | 0x20);
    } else if (is_figure(c) || !id.empty()) {
      id += is_figure(c) ? c : '-';
    }
  }
  return id.empty() ? "cluster" : id;
}

/// "22.05" of "22.05.8"; empty: no version.
std::string release_of(const std::string& version) {
  const std::size_t dot = version.find('.');
  if (dot == std::string::npos || dot == 0) return "";
  std::size_t end = dot + 1;
  while (end < version.size() && is_figure(version[end])) ++end;
  const bool is_number = std::all_of(version.begin(), version.begin() + static_cast<long>(dot),
                                     [](char c) { return is_figure(c); });
  return is_number && end > dot + 1 ? version.substr(0, end) : "";
}

void put_time(OrderedJson& object, const char* field,
              const std::optional<std::chrono::seconds>& time) {
  if (time && time->count() > 0) object[field] = time_limit_text(*time);
}

void put_count(OrderedJson& object, const char* field, const std::optional<int>& count) {
  if (count && *count > 0 && *count <= 1000000) object[field] = *count;
}

OrderedJson gpus_json(const LiveNodes& nodes) {
  OrderedJson gpus{{"count", std::min(nodes.gpus, 64)}};
  if (nodes.gpus == 0 || !is_word(nodes.gpu_type)) return gpus;
  std::string model = nodes.gpu_type;
  std::transform(model.begin(), model.end(), model.begin(),
                 [](char c) { return is_latin(c) ? static_cast<char>(c & ~0x20) : c; });
  gpus["model"] = model;
  gpus["type"] = nodes.gpu_type;
  return gpus;
}

/// The QoS that the partition names; where it takes any, none is the partition's own.
OrderedJson draft_qos(const LivePartition& partition, const LiveCluster& live) {
  OrderedJson list = OrderedJson::array();
  for (const std::string& name : partition.allowed_qos) {
    if (!is_word(name)) continue;
    OrderedJson qos{{"name", name}};
    if (const LiveQos* limits = live.find_qos(name)) {
      put_time(qos, "max_time", limits->max_time);
      put_count(qos, "max_gpus", limits->max_gpus);
      put_count(qos, "max_nodes", limits->max_nodes);
      put_count(qos, "max_jobs", limits->max_jobs);
    }
    list.push_back(std::move(qos));
  }
  return list;
}

OrderedJson draft_partition(const LivePartition& partition, const LiveCluster& live) {
  const LiveNodes& nodes = partition.kinds.front();
  OrderedJson json{{"name", partition.name}, {"select", "partition"}, {"gpus", gpus_json(nodes)}};
  // The schema's bounds: a node beyond them is described as far as it goes.
  const int cores = std::clamp(nodes.cores, 1, 4096);
  json["cores_per_task"] =
      std::clamp(cores / std::clamp(nodes.gpus, 1, 64), 1, nodes.gpus > cores ? 1 : 1024);
  if (nodes.gpus <= cores) json["cores_per_node"] = cores;
  if (nodes.threads_per_core > 1 && nodes.threads_per_core <= 8) {
    json["smt"] = nodes.threads_per_core;
  }
  if (nodes.memory_mb >= 1024) {
    json["memory_gb"] = std::min(nodes.memory_mb / 1024, 1000000LL);
  }
  if (partition.is_exclusive) json["exclusive"] = true;
  put_count(json, "max_nodes", live.max_nodes_of(partition));
  put_time(json, "default_time", partition.default_time);
  put_time(json, "max_time", live.max_time_of(partition));
  OrderedJson qos = draft_qos(partition, live);
  if (!qos.empty()) json["qos"] = std::move(qos);
  json["source"] = kAsked;
  return json;
}

/// Partitions with nodes, the default first.
std::vector<const LivePartition*> drafted(const LiveCluster& live) {
  std::vector<const LivePartition*> chosen;
  for (const LivePartition& partition : live.partitions) {
    if (!partition.kinds.empty() && !partition.is_hidden && is_word(partition.name))
      chosen.push_back(&partition);
  }
  std::stable_partition(chosen.begin(), chosen.end(),
                        [](const LivePartition* one) { return one->is_default; });
  return chosen;
}

OrderedJson draft_notes(const LiveCluster& live,
                        const std::vector<const LivePartition*>& partitions) {
  OrderedJson notes = OrderedJson::array();
  notes.push_back("Drafted by 'hvdrun sites new': cores_per_task is an even share of a node.");
  for (const LivePartition* partition : partitions) {
    if (partition->kinds.size() < 2) continue;
    notes.push_back(
        format_text("Partition {} has {} kinds of nodes; the most frequent ({} of {}) is written.",
                    partition->name, partition->kinds.size(), partition->kinds.front().count,
                    partition->nodes));
  }
  for (const LivePartition& partition : live.partitions) {
    const bool is_drafted =
        std::find(partitions.begin(), partitions.end(), &partition) != partitions.end();
    if (!is_drafted && !partition.is_hidden && is_word(partition.name)) {
      notes.push_back(format_text("Partition {} has no nodes, and is left out.", partition.name));
    }
  }
  return notes;
}

OrderedJson draft_json(const DraftFacts& facts,
                       const std::vector<const LivePartition*>& partitions) {
  const LiveCluster& live = facts.live;
  const auto any = [&partitions](auto holds) {
    return std::any_of(partitions.begin(), partitions.end(),
                       [&holds](const LivePartition* one) { return holds(one->kinds.front()); });
  };
  const bool has_gpus = any([](const LiveNodes& nodes) { return nodes.gpus > 0; });
  const bool has_threads = any([](const LiveNodes& nodes) { return nodes.threads_per_core > 1; });
  const std::string name = is_word(live.name) ? live.name : "unnamed";
  OrderedJson json;
  json["id"] = facts.id.empty() ? id_of(live.name) : facts.id;
  json["name"] = format_text("Slurm cluster {}", name);
  json["provenance"][kAsked] = {
      {"source", format_text("the cluster itself: ClusterName {}, Slurm {}", name,
                             is_word(live.version) ? live.version : "of unknown version")},
      {"date", facts.date},
      {"mark", "seen"}};
  json["provenance"][kGuess] = {{"source", "a guess of 'hvdrun sites new': verify"},
                                {"date", facts.date},
                                {"mark", "assumed"}};
  json["source"] = kAsked;
  json["sources"]["gres_style"] = kGuess;
  if (has_threads) json["sources"]["hint"] = kGuess;
  if (is_word(live.name)) json["detect"] = {{"cluster_names", {live.name}}, {"source", kAsked}};
  json["scheduler"] = {{"kind", "slurm"}};
  if (const std::string release = release_of(live.version); !release.empty()) {
    json["scheduler"]["version_min"] = release;
  }
  json["scheduler"]["source"] = kAsked;
  json["partitions"] = OrderedJson::array();
  for (const LivePartition* partition : partitions) {
    json["partitions"].push_back(draft_partition(*partition, live));
  }
  json["gres_style"] = has_gpus ? "gres" : "none";
  if (has_threads) json["hint"] = "nomultithread";  // cores are counted, not threads
  json["env"] = OrderedJson::array();
  json["notes"] = draft_notes(live, partitions);
  return json;
}

}  // namespace

Result<std::string> draft_site(const DraftFacts& facts) {
  const std::vector<const LivePartition*> partitions = drafted(facts.live);
  if (partitions.empty()) {
    return error(Code::kSystem,
                 "the cluster shows no partition with nodes: there is nothing to draft");
  }
  const OrderedJson json = draft_json(facts, partitions);
  std::string text = json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
  const Result<SiteConfig> checked = parse_site(text, "the draft");
  if (!checked.is_ok()) return checked.status();
  return text;
}

}  // namespace hvd
