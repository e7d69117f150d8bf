// SPDX-License-Identifier: Apache-2.0
#include "launcher/cluster/objections.h"

#include <algorithm>

#include "base/format.h"
#include "launcher/cluster/slurm_record.h"
#include "launcher/site/time_limit.h"

namespace hvd {
namespace {

template <typename Named>
std::string live_names(const std::vector<Named>& all) {
  std::string list;
  for (const Named& one : all) list += (list.empty() ? "" : ", ") + one.name;
  return list;
}

bool holds_word(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// The limits of a QoS: the job's, else the partition's.
const LiveQos* limits_of(const LiveRequest& request, const LivePartition& partition,
                         const LiveCluster& live) {
  return live.find_qos(request.qos.empty() ? partition.qos : request.qos);
}

std::optional<LiveObjection> objection_to_time(const LiveRequest& request,
                                               const LivePartition& partition,
                                               const LiveCluster& live) {
  const LiveQos* qos = limits_of(request, partition, live);
  if (!request.time) return std::nullopt;
  if (qos != nullptr && qos->max_time) {  // a QoS may go beyond its partition
    if (*request.time <= *qos->max_time) return std::nullopt;
    return LiveObjection{
        "time",
        format_text("--time {} is over the {} that QoS {} has on the cluster now",
                    time_limit_text(*request.time), time_limit_text(*qos->max_time), qos->name)};
  }
  if (!partition.max_time || *request.time <= *partition.max_time) return std::nullopt;
  return LiveObjection{
      "time", format_text("--time {} is over the {} that partition {} has on the cluster now",
                          time_limit_text(*request.time), time_limit_text(*partition.max_time),
                          partition.name)};
}

std::optional<LiveObjection> objection_to_nodes(const LiveRequest& request,
                                                const LivePartition& partition) {
  if (!request.nodes) return std::nullopt;
  if (partition.max_nodes && *request.nodes > *partition.max_nodes) {
    return LiveObjection{"nodes",
                         format_text("{} nodes are over the {} that partition {} allows a job now",
                                     *request.nodes, *partition.max_nodes, partition.name)};
  }
  if (*request.nodes < partition.min_nodes) {
    return LiveObjection{
        "nodes", format_text("{} nodes are under the {} that partition {} asks of a job now",
                             *request.nodes, partition.min_nodes, partition.name)};
  }
  if (partition.nodes > 0 && *request.nodes > partition.nodes) {
    return LiveObjection{"nodes",
                         format_text("{} nodes are more than the {} that partition {} has now",
                                     *request.nodes, partition.nodes, partition.name)};
  }
  return std::nullopt;
}

std::optional<LiveObjection> objection_to_qos(const LiveRequest& request,
                                              const LivePartition& partition,
                                              const LiveCluster& live) {
  if (request.qos.empty()) return std::nullopt;
  if (!live.qos.empty() && live.find_qos(request.qos) == nullptr) {
    return LiveObjection{"qos", format_text("the cluster has no QoS '{}' now: it has {}",
                                            request.qos, live_names(live.qos))};
  }
  const std::vector<std::string>& allowed = partition.allowed_qos;
  if (!allowed.empty() && !holds_word(allowed, request.qos)) {
    std::string list;
    for (const std::string& name : allowed) list += (list.empty() ? "" : ", ") + name;
    return LiveObjection{"qos", format_text("partition {} does not take QoS '{}' now: it takes {}",
                                            partition.name, request.qos, list)};
  }
  if (holds_word(partition.denied_qos, request.qos)) {
    return LiveObjection{
        "qos", format_text("partition {} does not take QoS '{}' now", partition.name, request.qos)};
  }
  return std::nullopt;
}

std::vector<LiveObjection> objections_of(const LiveRequest& request, const LivePartition& partition,
                                         const LiveCluster& live) {
  std::vector<LiveObjection> all;
  if (!partition.state.empty() && partition.state != "UP") {
    all.push_back({"partition", format_text("partition {} is {} on the cluster now: jobs {}",
                                            partition.name, partition.state,
                                            partition.state == "DOWN" ? "wait" : "are refused")});
  }
  for (auto& objection :
       {objection_to_time(request, partition, live), objection_to_nodes(request, partition),
        objection_to_qos(request, partition, live)}) {
    if (objection) all.push_back(*objection);
  }
  return all;
}

}  // namespace

std::vector<LiveObjection> live_objections(const LiveRequest& request, const LiveCluster& live) {
  if (live.partitions.empty()) return {};
  std::vector<std::string> names = comma_words(request.partition);
  if (names.empty()) {
    const LivePartition* usual = live.default_partition();
    if (usual == nullptr) return {};
    names.push_back(usual->name);
  }
  std::vector<LiveObjection> first;
  for (const std::string& name : names) {
    const LivePartition* partition = live.find_partition(name);
    if (partition == nullptr) {
      return {{"partition", format_text("the cluster has no partition '{}' now: it has {}", name,
                                        live_names(live.partitions))}};
    }
    std::vector<LiveObjection> objections = objections_of(request, *partition, live);
    if (objections.empty()) return {};  // one of several is enough
    if (first.empty()) first = std::move(objections);
  }
  return first;
}

}  // namespace hvd
