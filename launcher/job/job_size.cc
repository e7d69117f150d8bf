// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/job_size.h"

#include <algorithm>

#include "base/rounding.h"

namespace hvd {
namespace {

/// Nodes, and GPUs of each.
struct Split {
  int nodes = 1;
  int gpus_per_node = 0;
};

bool is_named(const SitePartition& partition, const std::string& name) {
  return partition.name == name || std::find(partition.aliases.begin(), partition.aliases.end(),
                                             name) != partition.aliases.end();
}

/// How GPUs are handed out where a node has `per_node`; `whole`: never a part of a node.
struct NodeGpus {
  int per_node = 0;
  bool whole = false;
  std::string where;  ///< "partition gpu_p13 of site jean-zay"

  /// The fewest nodes that hold `gpus`, each the same number; nothing where they do not divide.
  std::optional<Split> spread(int gpus) const {
    const int nodes = divide_up(gpus, per_node);
    if (gpus <= 0 || gpus % nodes != 0 || (whole && gpus % per_node != 0)) return std::nullopt;
    return Split{nodes, gpus / nodes};
  }

  /// "--gpus 6 (2 x 3) or --gpus 8 (2 x 4)": the nearest numbers that divide.
  std::string nearest(int gpus) const {
    std::string text;
    for (int below = gpus - 1; below > 0 && text.empty(); --below) {
      if (const auto split = spread(below)) text = describe(below, *split) + " or ";
    }
    int above = gpus + 1;
    while (!spread(above)) ++above;
    return text + describe(above, *spread(above));
  }

  static std::string describe(int gpus, const Split& split) {
    return format_text("--gpus {} ({} x {})", gpus, split.nodes, split.gpus_per_node);
  }
};

/// --nodes and --gpus: an even part of each node.
Result<Split> divide(const NodeGpus& node, int gpus, int nodes) {
  const int each = gpus / nodes;
  if (gpus % nodes == 0 && each <= node.per_node && (!node.whole || each == node.per_node)) {
    return Split{nodes, each};
  }
  if (gpus > nodes * node.per_node) {
    return error(Code::kInvalidArgument,
                 "{} GPUs are more than {} nodes of {} have ({}): type --gpus {} or --nodes {}",
                 gpus, nodes, node.per_node, node.where, nodes * node.per_node,
                 divide_up(gpus, node.per_node));
  }
  if (node.whole) {
    return error(Code::kInvalidArgument, "the nodes of {} come whole, with {} GPUs: type --gpus {}",
                 node.where, node.per_node, nodes * node.per_node);
  }
  const std::string lower = each > 0 ? format_text("--gpus {} or ", each * nodes) : "";
  return error(Code::kInvalidArgument, "{} GPUs do not divide over {} nodes: type {}--gpus {}",
               gpus, nodes, lower, (each + 1) * nodes);
}

/// --gpus-per-node, with --nodes or --gpus or both.
Result<Split> multiply(const NodeGpus& node, const JobOptions& request) {
  const int each = *request.gpus_per_node;
  if (each > node.per_node || (node.whole && each != node.per_node)) {
    return error(Code::kInvalidArgument,
                 "a node of {} has {} GPU{}{}, not {}: type --gpus-per-node "
                 "{}{}",
                 node.where, node.per_node, node.per_node == 1 ? "" : "s",
                 node.whole ? " and comes whole" : "", each, node.per_node,
                 node.whole ? "" : " or less");
  }
  if (!request.gpus) return Split{*request.nodes, each};
  const int gpus = *request.gpus;
  const int nodes = request.nodes.value_or(std::max(1, gpus / each));
  if (nodes * each == gpus) return Split{nodes, each};
  if (request.nodes) {
    return error(Code::kInvalidArgument,
                 "{} nodes of {} GPUs are {}, not {}: leave out --gpus, or type --gpus {}", nodes,
                 each, nodes * each, gpus, nodes * each);
  }
  const int below = gpus / each * each;
  const std::string lower = below > 0 ? format_text("--gpus {} or ", below) : "";
  return error(Code::kInvalidArgument, "{} GPUs do not fill nodes of {}: type {}--gpus {}", gpus,
               each, lower, below + each);
}

Result<Split> plan_gpus(const NodeGpus& node, const JobOptions& request) {
  if (request.gpus_per_node) return multiply(node, request);
  if (!request.gpus) return Split{*request.nodes, node.per_node};
  if (request.nodes) return divide(node, *request.gpus, *request.nodes);
  if (const auto split = node.spread(*request.gpus)) return *split;
  return error(Code::kInvalidArgument, "{} GPUs do not divide over {} nodes of {} ({}): type {}",
               *request.gpus, divide_up(*request.gpus, node.per_node), node.per_node, node.where,
               node.nearest(*request.gpus));
}

Result<Split> plan_split(const SiteConfig& site, const SitePartition& partition,
                         const JobOptions& request) {
  const std::string where = format_text("partition {} of site {}", partition.name, site.id);
  if (partition.gpus_per_node > 0) {
    return plan_gpus({partition.gpus_per_node, site.gres_style == GresStyle::kNone, where},
                     request);
  }
  if (request.gpus || request.gpus_per_node) {
    return error(Code::kInvalidArgument, "{} has no GPUs: type --nodes alone", where);
  }
  return Split{*request.nodes, 0};
}

/// A site without partitions knows nothing of its nodes: the user says it all.
Result<JobSize> plan_unknown_nodes(const SiteConfig& site, const JobOptions& request) {
  if (!request.nodes && !(request.gpus && request.gpus_per_node)) {
    return error(Code::kInvalidArgument,
                 "site {} does not know how many GPUs a node has: type --nodes N as well, or "
                 "--site with a site that does",
                 site.id);
  }
  Split split{request.nodes.value_or(1), request.gpus_per_node.value_or(0)};
  const NodeGpus any{1024, false, format_text("site {}", site.id)};
  if (request.gpus) {
    HVD_TRY_ASSIGN(split, plan_gpus(any, request));
  }
  JobSize size;
  size.nodes = split.nodes;
  size.gpus_per_node = split.gpus_per_node;
  size.tasks_per_node = request.ntasks_per_node.value_or(std::max(1, split.gpus_per_node));
  size.cores_per_task = request.cpus_per_task.value_or(0);
  return size;
}

int cores_of_node(const SitePartition& partition) {
  return partition.cores_per_node.value_or(std::max(1, partition.gpus_per_node) *
                                           partition.cores_per_task);
}

/// Cores of a node that the job's part of it holds.
int cores_of_part(const SitePartition& partition, const JobOptions& request, int gpus) {
  const bool whole = request.exclusive || partition.exclusive || gpus == partition.gpus_per_node;
  return whole ? cores_of_node(partition) : gpus * partition.cores_per_task;
}

Status plan_cores(const SitePartition& partition, const JobOptions& request, JobSize& size) {
  const int cores = cores_of_part(partition, request, size.gpus_per_node);
  const int all = cores_of_node(partition);
  const bool usual = size.tasks_per_node == size.gpus_per_node;
  const int share = usual ? partition.cores_per_task : cores / size.tasks_per_node;
  size.cores_per_task = request.cpus_per_task.value_or(share);
  if (size.cores_per_task == 0) {
    return error(Code::kInvalidArgument,
                 "{} tasks are more than the {} cores that the job has of a node of partition {}: "
                 "type --ntasks-per-node {} or less",
                 size.tasks_per_node, cores, partition.name, cores);
  }
  if (size.tasks_per_node * size.cores_per_task <= all) return Status::ok();
  return error(Code::kInvalidArgument,
               "{} tasks of {} cores are more than the {} cores of a node of partition {}: type "
               "--cpus-per-task {} or less",
               size.tasks_per_node, size.cores_per_task, all, partition.name,
               all / size.tasks_per_node);
}

std::string note_of(const SitePartition& partition, const JobOptions& request,
                    const JobSize& size) {
  const bool asked = request.nodes || request.gpus_per_node;
  if (asked || size.nodes == 1 || size.gpus_per_node == partition.gpus_per_node) return "";
  return format_text("{} GPUs are {} nodes of {}: a node has {}{}.", size.gpus(), size.nodes,
                     size.gpus_per_node, partition.gpus_per_node,
                     partition.exclusive ? ", and comes whole" : "");
}

}  // namespace

Result<SitePartition> choose_partition(const SiteConfig& site, const JobOptions& request) {
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

Result<JobSize> plan_size(const SiteConfig& site, const SitePartition& partition,
                          const JobOptions& request) {
  if (!request.gpus && !request.nodes) {
    return error(Code::kInvalidArgument, "how large is the job? Type --gpus N or --nodes N");
  }
  if (site.partitions.empty()) return plan_unknown_nodes(site, request);
  HVD_TRY_ASSIGN(const Split split, plan_split(site, partition, request));
  JobSize size;
  size.nodes = split.nodes;
  size.gpus_per_node = split.gpus_per_node;
  size.tasks_per_node = request.ntasks_per_node.value_or(std::max(1, size.gpus_per_node));
  HVD_TRY(plan_cores(partition, request, size));
  const bool guess = provenance_of(partition, "max_nodes").is_assumed();
  if (partition.max_nodes && !guess && size.nodes > *partition.max_nodes) {
    return error(
        Code::kInvalidArgument,
        "{} nodes are over the {} that a job gets in partition {}: type --nodes {} or less",
        size.nodes, *partition.max_nodes, partition.name, *partition.max_nodes);
  }
  size.note = note_of(partition, request, size);
  return size;
}

}  // namespace hvd
