// SPDX-License-Identifier: Apache-2.0
#include "launcher/cluster/live_cluster.h"

#include <algorithm>
#include <tuple>

#include "launcher/cluster/gres_count.h"
#include "launcher/cluster/qos_text.h"
#include "launcher/cluster/slurm_record.h"
#include "launcher/site/time_limit.h"

namespace hvd {
namespace {

std::optional<std::chrono::seconds> live_limit(std::string_view line, std::string_view name) {
  const auto limit = parse_time_limit(record_field(line, name));
  if (!limit.is_ok()) return std::nullopt;  // UNLIMITED, NONE
  return limit.value();
}

std::optional<int> count_field(std::string_view line, std::string_view name) {
  return record_count(record_field(line, name));
}

/// Names of a list in which ALL is all.
std::vector<std::string> named_of(const std::string& list) {
  return list == "ALL" ? std::vector<std::string>() : comma_words(list);
}

LivePartition partition_of(std::string_view line) {
  LivePartition partition;
  partition.name = record_field(line, "PartitionName");
  partition.is_default = record_field(line, "Default") == "YES";
  partition.is_hidden = record_field(line, "Hidden") == "YES";
  partition.is_exclusive = record_field(line, "OverSubscribe") == "EXCLUSIVE";
  partition.state = record_field(line, "State");
  partition.max_time = live_limit(line, "MaxTime");
  partition.default_time = live_limit(line, "DefaultTime");
  partition.max_nodes = count_field(line, "MaxNodes");
  partition.min_nodes = count_field(line, "MinNodes").value_or(0);
  partition.nodes = count_field(line, "TotalNodes").value_or(0);
  partition.allowed_qos = named_of(record_field(line, "AllowQos"));
  partition.denied_qos = named_of(record_field(line, "DenyQos"));
  partition.qos = record_field(line, "QoS");
  return partition;
}

LiveNodes nodes_of(std::string_view line) {
  LiveNodes nodes;
  nodes.count = 1;
  const GresCount gpus = gpus_of_gres(record_field(line, "Gres"));
  nodes.gpus = gpus.count;
  nodes.gpu_type = gpus.type;
  nodes.threads_per_core = std::max(count_field(line, "ThreadsPerCore").value_or(1), 1);
  // CPUEfctv (from 22.05) leaves out the cores that Slurm keeps for itself.
  const int threads =
      count_field(line, "CPUEfctv").value_or(count_field(line, "CPUTot").value_or(0));
  const long long cores = 1LL * count_field(line, "Sockets").value_or(0) *
                          count_field(line, "CoresPerSocket").value_or(0);
  // Where Slurm is told of cores alone, its CPUs are cores.
  const bool counts_threads = threads > cores;
  nodes.cores = counts_threads ? threads / nodes.threads_per_core : threads;
  nodes.memory_mb = record_number(record_field(line, "RealMemory")).value_or(0);
  return nodes;
}

void add_node(std::string_view line, std::vector<LivePartition>& partitions) {
  const LiveNodes node = nodes_of(line);
  for (const std::string& name : comma_words(record_field(line, "Partitions"))) {
    for (LivePartition& partition : partitions) {
      if (partition.name != name) continue;
      const auto known =
          std::find_if(partition.kinds.begin(), partition.kinds.end(),
                       [&node](const LiveNodes& kind) { return kind.is_like(node); });
      if (known != partition.kinds.end()) {
        ++known->count;
      } else {
        partition.kinds.push_back(node);
      }
    }
  }
}

/// The value of a line "ClusterName             = lab"; empty: it is not that line.
std::string config_value(std::string_view line, std::string_view key) {
  if (!line.starts_with(key)) return "";
  line.remove_prefix(key.size());
  const std::size_t begin = line.find_first_not_of(' ');
  if (begin == 0 || begin == std::string_view::npos || line[begin] != '=') return "";
  const std::size_t value = line.find_first_not_of(' ', begin + 1);
  if (value == std::string_view::npos) return "";
  line.remove_prefix(value);
  return std::string(line.substr(0, line.find_last_not_of(" \r") + 1));
}

void take_config(std::string_view line, LiveCluster& cluster) {
  if (std::string name = config_value(line, "ClusterName"); !name.empty()) cluster.name = name;
  if (std::string text = config_value(line, "SLURM_VERSION"); !text.empty()) {
    cluster.version = text;
  }
  if (config_value(line, "AccountingStorageType") == "accounting_storage/slurmdbd") {
    cluster.has_accounts = true;
  }
}

/// A QoS is bound by its partition too, unless it passes the limit of that.
template <typename Limit>
std::optional<Limit> tighter(std::optional<Limit> qos, std::optional<Limit> partition,
                             bool passes) {
  if (!qos) return passes ? std::nullopt : partition;
  return passes || !partition ? qos : std::min(*qos, *partition);
}

}  // namespace

bool LiveNodes::is_like(const LiveNodes& other) const {
  return std::tie(gpus, gpu_type, cores, threads_per_core, memory_mb) ==
         std::tie(other.gpus, other.gpu_type, other.cores, other.threads_per_core, other.memory_mb);
}

const LivePartition* LiveCluster::find_partition(std::string_view name) const {
  const auto found = std::find_if(partitions.begin(), partitions.end(),
                                  [name](const LivePartition& one) { return one.name == name; });
  return found == partitions.end() ? nullptr : &*found;
}

const LivePartition* LiveCluster::default_partition() const {
  const auto found = std::find_if(partitions.begin(), partitions.end(),
                                  [](const LivePartition& one) { return one.is_default; });
  return found == partitions.end() ? nullptr : &*found;
}

const LiveQos* LiveCluster::find_qos(std::string_view name) const {
  const auto found =
      std::find_if(qos.begin(), qos.end(), [name](const LiveQos& one) { return one.name == name; });
  return found == qos.end() ? nullptr : &*found;
}

std::optional<std::chrono::seconds> LiveCluster::max_time_of(const LivePartition& partition) const {
  const LiveQos* found = find_qos(partition.qos);
  if (found == nullptr) return partition.max_time;
  return tighter(found->max_time, partition.max_time, found->passes_max_time);
}

std::optional<int> LiveCluster::max_nodes_of(const LivePartition& partition) const {
  const LiveQos* found = find_qos(partition.qos);
  if (found == nullptr) return partition.max_nodes;
  return tighter(found->max_nodes, partition.max_nodes, found->passes_max_nodes);
}

LiveCluster parse_live_cluster(std::string_view slurm_text, std::string_view qos_text) {
  LiveCluster cluster;
  std::vector<std::string_view> nodes;
  for (const std::string_view line : lines_of(slurm_text)) {
    if (line.starts_with("PartitionName=")) {
      if (LivePartition partition = partition_of(line); !partition.name.empty()) {
        cluster.partitions.push_back(std::move(partition));
      }
    } else if (line.starts_with("NodeName=")) {
      nodes.push_back(line);  // their partitions may come later
    } else {
      take_config(line, cluster);
    }
  }
  for (const std::string_view line : nodes) add_node(line, cluster.partitions);
  for (LivePartition& partition : cluster.partitions) {
    std::stable_sort(
        partition.kinds.begin(), partition.kinds.end(),
        [](const LiveNodes& one, const LiveNodes& other) { return one.count > other.count; });
  }
  cluster.qos = parse_qos(qos_text);
  cluster.jobs = parse_job_status(slurm_text);
  return cluster;
}

}  // namespace hvd
