// SPDX-License-Identifier: Apache-2.0
#include "launcher/cluster/differences.h"

#include <algorithm>

#include "base/format.h"
#include "launcher/site/time_limit.h"

namespace hvd {
namespace {

constexpr long long kMegabytes = 1024;  ///< Of a gigabyte, as Slurm counts.

/// Compares the values of one partition or QoS, and keeps what differs. What the cluster leaves
/// open another may limit: an association, the QoS of a job.
template <typename Stated>
class Comparison {
 public:
  Comparison(const Stated& stated, SiteDifference place, std::string what)
      : stated_(stated), place_(std::move(place)), what_(std::move(what)) {}

  void time(const std::string& field, const std::string& in_file,
            const std::optional<std::chrono::seconds>& live) {
    const auto limit = parse_time_limit(in_file);
    if (in_file.empty() || !live || !limit.is_ok() || limit.value() == *live) return;
    add(field, in_file, time_limit_text(*live));
  }
  void count(const std::string& field, const std::optional<int>& in_file,
             const std::optional<int>& live) {
    if (in_file && live && in_file != live) {
      add(field, std::to_string(*in_file), std::to_string(*live));
    }
  }
  void add(const std::string& field, const std::string& in_file, const std::string& live) {
    SiteDifference difference = place_;
    difference.text =
        format_text("{}: {} is {} in the site file{}, {} on the cluster", what_, field, in_file,
                    describe_provenance(provenance_of(stated_, field)), live);
    found_.push_back(std::move(difference));
  }
  std::vector<SiteDifference> take() { return std::move(found_); }

 private:
  const Stated& stated_;
  SiteDifference place_;
  std::string what_;
  std::vector<SiteDifference> found_;
};

void append_differences(std::vector<SiteDifference>& all, std::vector<SiteDifference> more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

/// The partition by its name in Slurm; those that a feature chooses bear the site file's own.
const LivePartition* live_of(const SitePartition& partition, const LiveCluster& live) {
  if (partition.select == PartitionSelect::kConstraint) return nullptr;
  if (const LivePartition* found = live.find_partition(partition.name)) return found;
  for (const std::string& alias : partition.aliases) {
    if (const LivePartition* found = live.find_partition(alias)) return found;
  }
  return nullptr;
}

std::vector<SiteDifference> differences_of_nodes(const SitePartition& partition,
                                                 const LivePartition& live) {
  Comparison compare(partition, {partition.name, "", ""}, "partition " + partition.name);
  if (live.kinds.empty()) return {};
  const auto any = [&live](auto holds) {
    return std::any_of(live.kinds.begin(), live.kinds.end(), holds);
  };
  const LiveNodes& most = live.kinds.front();
  if (!any([&](const LiveNodes& kind) { return kind.gpus == partition.gpus_per_node; })) {
    compare.add("gpus/count", std::to_string(partition.gpus_per_node), std::to_string(most.gpus));
  }
  // A site may hand out less than Slurm counts, and never more.
  const int threads = most.cores * most.threads_per_core;
  if (partition.cores_per_node && most.cores > 0 && !any([&](const LiveNodes& kind) {
        return kind.cores * kind.threads_per_core >= *partition.cores_per_node;
      })) {
    compare.add("cores_per_node", std::to_string(*partition.cores_per_node),
                format_text("{} with {} threads", most.cores, threads));
  }
  if (partition.memory_gb && most.memory_mb > 0 && !any([&](const LiveNodes& kind) {
        return kind.memory_mb >= (*partition.memory_gb - 1LL) * kMegabytes;
      })) {
    compare.add("memory_gb", std::to_string(*partition.memory_gb),
                std::to_string(most.memory_mb / kMegabytes));
  }
  return compare.take();
}

std::vector<SiteDifference> differences_of_qos(const SitePartition& partition,
                                               const LiveCluster& live) {
  std::vector<SiteDifference> all;
  if (live.qos.empty()) return all;
  for (const SiteQos& qos : partition.qos) {
    const std::string what = format_text("QoS {} of partition {}", qos.name, partition.name);
    const LiveQos* found = live.find_qos(qos.name);
    if (found == nullptr) {
      all.push_back({partition.name, qos.name, what + " is in the site file, not on the cluster"});
      continue;
    }
    Comparison compare(qos, {partition.name, qos.name, ""}, what);
    compare.time("max_time", qos.max_time, found->max_time);
    compare.count("max_nodes", qos.max_nodes, found->max_nodes);
    compare.count("max_gpus", qos.max_gpus, found->max_gpus);
    append_differences(all, compare.take());
  }
  return all;
}

std::vector<SiteDifference> differences_of(const SitePartition& partition,
                                           const LiveCluster& live) {
  std::vector<SiteDifference> all;
  const LivePartition* found = live_of(partition, live);
  if (found == nullptr) {
    if (partition.select == PartitionSelect::kPartition && !live.partitions.empty()) {
      all.push_back({partition.name, "",
                     format_text("partition {} is in the site file{}, not on the cluster",
                                 partition.name, describe_provenance(partition.provenance))});
    }
    return all;
  }
  if (found->state != "UP" && !found->state.empty()) {
    all.push_back({partition.name, "",
                   format_text("partition {} is {} on the cluster", partition.name, found->state)});
  }
  Comparison compare(partition, {partition.name, "", ""}, "partition " + partition.name);
  compare.time("max_time", partition.max_time, live.max_time_of(*found));
  compare.time("default_time", partition.default_time, found->default_time);
  compare.count("max_nodes", partition.max_nodes, live.max_nodes_of(*found));
  append_differences(all, compare.take());
  append_differences(all, differences_of_nodes(partition, *found));
  append_differences(all, differences_of_qos(partition, live));
  return all;
}

}  // namespace

bool is_of_cluster(const SiteConfig& site, const LiveCluster& live) {
  const std::vector<std::string>& names = site.detect.cluster_names;
  return names.empty() || live.name.empty() ||
         std::find(names.begin(), names.end(), live.name) != names.end();
}

std::vector<SiteDifference> site_differences(const SiteConfig& site, const LiveCluster& live) {
  std::vector<SiteDifference> all;
  for (const SitePartition& partition : site.partitions) {
    append_differences(all, differences_of(partition, live));
  }
  return all;
}

}  // namespace hvd
