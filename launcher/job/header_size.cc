// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/header_size.h"

#include <algorithm>

namespace hvd {
namespace {

bool is_named(const SitePartition& partition, const std::string& name) {
  return partition.name == name || std::find(partition.aliases.begin(), partition.aliases.end(),
                                             name) != partition.aliases.end();
}

/// A site without partitions knows nothing of its nodes: the user says it all.
Result<HeaderSize> plan_unknown_nodes(const SiteConfig& site, const HeaderOptions& request) {
  HeaderSize size;
  size.cores_per_task = request.cpus_per_task.value_or(0);
  if (!request.nodes) {
    return error(Code::kInvalidArgument,
                 "site {} does not know how many GPUs a node has: type --nodes N as well, or "
                 "--site with a site that does",
                 site.id);
  }
  size.nodes = *request.nodes;
  if (!request.gpus) return size;
  if (*request.gpus % size.nodes != 0) {
    const int each = std::max(1, *request.gpus / size.nodes);
    return error(Code::kInvalidArgument,
                 "{} GPUs do not divide over {} nodes: type --gpus {} or --gpus {}", *request.gpus,
                 size.nodes, each * size.nodes, (each + 1) * size.nodes);
  }
  size.gpus_per_node = *request.gpus / size.nodes;
  size.tasks_per_node = size.gpus_per_node;
  return size;
}

/// The nodes that `gpus` fill; a part of one node counts as one.
Result<int> nodes_for(const SiteConfig& site, const SitePartition& partition, int gpus) {
  const int per_node = partition.gpus_per_node;
  if (per_node == 0) {
    return error(Code::kInvalidArgument, "partition {} of site {} has no GPUs: type --nodes",
                 partition.name, site.id);
  }
  const bool divisible = site.gres_style != GresStyle::kNone;
  if (gpus % per_node == 0 || (gpus < per_node && divisible)) {
    return std::max(1, gpus / per_node);
  }
  const int below = gpus / per_node * per_node;
  const std::string lower = below > 0 ? format_text("--gpus {} or ", below) : "";
  return error(Code::kInvalidArgument,
               "{} GPUs do not fill nodes of {} (site {}, partition {}): type {}--gpus {}", gpus,
               per_node, site.id, partition.name, lower, below + per_node);
}

}  // namespace

Result<SitePartition> choose_partition(const SiteConfig& site, const HeaderOptions& request) {
  if (site.partitions.empty()) {
    SitePartition any;
    any.name = request.partition;
    if (!any.name.empty()) any.select = PartitionSelect::kPartition;
    return any;
  }
  std::string known;
  for (const SitePartition& partition : site.partitions) {
    if (!request.partition.empty() && is_named(partition, request.partition)) return partition;
    known += (known.empty() ? "" : ", ") + partition.name;
  }
  if (!request.partition.empty()) {
    return error(Code::kInvalidArgument, "site {} has no partition '{}': it has {}", site.id,
                 request.partition, known);
  }
  for (const SitePartition& partition : site.partitions) {
    if (!request.constraint.empty() && partition.constraint == request.constraint) return partition;
  }
  return site.partitions.front();
}

Result<HeaderSize> plan_size(const SiteConfig& site, const SitePartition& partition,
                             const HeaderOptions& request) {
  if (!request.gpus && !request.nodes) {
    return error(Code::kInvalidArgument, "how large is the job? Type --gpus N or --nodes N");
  }
  if (site.partitions.empty()) return plan_unknown_nodes(site, request);
  HeaderSize size;
  size.gpus_per_node = partition.gpus_per_node;
  size.nodes = request.nodes.value_or(1);
  if (request.gpus) {
    HVD_TRY_ASSIGN(const int nodes, nodes_for(site, partition, *request.gpus));
    if (request.nodes && *request.nodes != nodes) {
      return error(Code::kInvalidArgument,
                   "{} GPUs are {} nodes of {} in partition {}, not {}: leave out --nodes, or type "
                   "--gpus {}",
                   *request.gpus, nodes, partition.gpus_per_node, partition.name, *request.nodes,
                   *request.nodes * partition.gpus_per_node);
    }
    size.nodes = nodes;
    size.gpus_per_node = *request.gpus / nodes;
  }
  size.tasks_per_node = std::max(1, size.gpus_per_node);
  size.cores_per_task = request.cpus_per_task.value_or(partition.cores_per_task);
  const int cores = std::max(1, partition.gpus_per_node) * partition.cores_per_task;
  if (size.tasks_per_node * size.cores_per_task > cores) {
    return error(Code::kInvalidArgument,
                 "{} tasks of {} cores are more than the {} cores of a node of partition {}: type "
                 "--cpus-per-task {} or less",
                 size.tasks_per_node, size.cores_per_task, cores, partition.name,
                 cores / size.tasks_per_node);
  }
  if (partition.max_nodes && size.nodes > *partition.max_nodes) {
    return error(Code::kInvalidArgument, "partition {} has {} nodes, and the job asks for {}",
                 partition.name, *partition.max_nodes, size.nodes);
  }
  return size;
}

}  // namespace hvd
