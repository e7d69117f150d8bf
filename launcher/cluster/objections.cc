// SPDX-License-Identifier: Apache-2.0
#include "launcher/cluster/objections.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/format.h"
#include "launcher/cluster/slurm_record.h"
#include "launcher/site/time_limit.h"

namespace hvd {
namespace {

std::string live_names(const std::vector<LiveQos>& all) {
  std::string list;
  for (const LiveQos& one : all) list += (list.empty() ? "" : ", ") + one.name;
  return list;
}

std::string live_names(const std::vector<LivePartition>& all) {
  std::string list;
  for (const LivePartition& one : all) {
    if (!one.is_hidden) list += (list.empty() ? "" : ", ") + one.name;
  }
  return list;
}

bool holds_word(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// The QoS that limit a job: the first that has a limit gives it. That of the partition comes first
/// (https://slurm.schedmd.com/resource_limits.html#hierarchy).
std::vector<const LiveQos*> limits_of(const LiveRequest& request, const LivePartition& partition,
                                      const LiveCluster& live) {
  std::vector<const LiveQos*> all{live.find_qos(partition.qos), live.find_qos(request.qos)};
  if (all[1] != nullptr && all[1]->goes_first) std::swap(all[0], all[1]);
  std::erase(all, nullptr);
  return all;
}

/// The QoS whose `limit` counts; null: none has one.
template <typename Limit>
const LiveQos* first_with(const std::vector<const LiveQos*>& all,
                          std::optional<Limit> LiveQos::*limit) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const LiveQos* qos) { return qos->*limit; });
  return found == all.end() ? nullptr : *found;
}

/// True where one of them frees jobs of a limit of the partition, which binds all others.
bool passes(const std::vector<const LiveQos*>& all, bool LiveQos::*limit) {
  return std::any_of(all.begin(), all.end(), [&](const LiveQos* qos) { return qos->*limit; });
}

std::optional<LiveObjection> objection_to_time(const LiveRequest& request,
                                               const LivePartition& partition,
                                               const LiveCluster& live) {
  if (!request.time) return std::nullopt;
  const std::vector<const LiveQos*> all = limits_of(request, partition, live);
  const LiveQos* qos = first_with(all, &LiveQos::max_time);
  if (qos != nullptr && *request.time > *qos->max_time) {
    return LiveObjection{
        "time",
        format_text("--time {} is over the {} that QoS {} has on the cluster now",
                    time_limit_text(*request.time), time_limit_text(*qos->max_time), qos->name)};
  }
  if (passes(all, &LiveQos::passes_max_time)) return std::nullopt;
  if (!partition.max_time || *request.time <= *partition.max_time) return std::nullopt;
  return LiveObjection{
      "time", format_text("--time {} is over the {} that partition {} has on the cluster now",
                          time_limit_text(*request.time), time_limit_text(*partition.max_time),
                          partition.name)};
}

std::optional<LiveObjection> objection_to_nodes(const LiveRequest& request,
                                                const LivePartition& partition,
                                                const LiveCluster& live) {
  if (!request.nodes) return std::nullopt;
  const int nodes = *request.nodes;
  const std::vector<const LiveQos*> all = limits_of(request, partition, live);
  const LiveQos* qos = first_with(all, &LiveQos::max_nodes);
  if (qos != nullptr && nodes > *qos->max_nodes) {
    return LiveObjection{"nodes",
                         format_text("{} nodes are over the {} that QoS {} allows a job now", nodes,
                                     *qos->max_nodes, qos->name)};
  }
  if (partition.max_nodes && nodes > *partition.max_nodes &&
      !passes(all, &LiveQos::passes_max_nodes)) {
    return LiveObjection{
        "nodes", format_text("{} nodes are over the {} that partition {} allows a job now", nodes,
                             *partition.max_nodes, partition.name)};
  }
  if (nodes < partition.min_nodes && !passes(all, &LiveQos::passes_min_nodes)) {
    return LiveObjection{
        "nodes", format_text("{} nodes are under the {} that partition {} asks of a job now", nodes,
                             partition.min_nodes, partition.name)};
  }
  if (partition.nodes > 0 && nodes > partition.nodes) {
    return LiveObjection{
        "nodes", format_text("{} nodes are more than the {} that partition {} has now", nodes,
                             partition.nodes, partition.name)};
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
       {objection_to_time(request, partition, live), objection_to_nodes(request, partition, live),
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
