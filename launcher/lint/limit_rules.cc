// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "base/format.h"
#include "base/rounding.h"
#include "launcher/lint/header_rules.h"
#include "launcher/lint/nearest_word.h"
#include "launcher/lint/site_facts.h"
#include "launcher/site/site_limits.h"
#include "launcher/site/time_limit.h"

namespace hvd {
namespace {

using Seconds = std::chrono::seconds;

std::optional<Seconds> seconds_of(const std::string& time) {
  if (time.empty()) return std::nullopt;
  const Result<Seconds> limit = parse_time_limit(time);
  return limit.is_ok() ? std::optional(limit.value()) : std::nullopt;
}

std::string partition_flag(const SitePartition& partition) {
  if (partition.select == PartitionSelect::kConstraint) return "-C " + partition.constraint;
  return "--partition=" + partition.name;
}

std::string listed_partitions(const SiteConfig& site) {
  std::string text;
  for (const SitePartition& partition : site.partitions) {
    text += format_text("{}{} ({})", text.empty() ? "" : ", ", partition.name,
                        partition.select == PartitionSelect::kImplicit ? std::string("default")
                                                                       : partition_flag(partition));
  }
  return text;
}

void add_partition(const ScriptFacts& facts, std::vector<Finding>& findings) {
  const Directive* directive = find_directive(facts.file, "partition");
  if (directive != nullptr && facts.partition == nullptr && !facts.site.partitions.empty()) {
    Finding finding = directive_finding("unknown-partition", *directive);
    std::vector<std::string_view> names;
    for (const SitePartition& partition : facts.site.partitions) names.push_back(partition.name);
    const std::string_view nearest = nearest_word(facts.request.partition, names, 1);
    finding.why =
        format_text("{} lists no partition '{}'", facts.site.name, facts.request.partition);
    finding.fix = format_text("possible are {}", listed_partitions(facts.site));
    if (nearest.empty()) {
      // Site files list what trains; other nodes may exist.
      finding.severity = Severity::kWarning;
    } else {
      finding.edit = new_value(*directive, std::string(nearest));
      finding.fix = format_text("write {}", nearest);
    }
    finding.source = provenance_text(facts.site.provenance);
    findings.push_back(std::move(finding));
  }
  const Directive* constraint = find_directive(facts.file, "constraint");
  if (constraint == nullptr || directive == nullptr || facts.partition == nullptr) return;
  const SitePartition* chosen = find_by_constraint(facts.site, facts.request.constraint);
  if (chosen == nullptr || chosen == facts.partition) return;
  Finding finding = directive_finding("constraint-mismatch", *constraint);
  finding.why = format_text("'{}' chooses {}, and --partition={} another kind of node",
                            facts.request.constraint, chosen->name, facts.request.partition);
  finding.fix = "drop one of the two";
  findings.push_back(held_against(std::move(finding), chosen->provenance));
}

/// The partition that has this QoS; null: none.
const SitePartition* owner_of_qos(const SiteConfig& site, const std::string& name) {
  for (const SitePartition& partition : site.partitions) {
    if (find_qos(partition, name) != nullptr) return &partition;
  }
  return nullptr;
}

void add_qos(const ScriptFacts& facts, std::vector<Finding>& findings) {
  const Directive* directive = find_directive(facts.file, "qos");
  if (directive == nullptr || facts.partition == nullptr || facts.partition->qos.empty()) return;
  if (facts.request.qos.empty() || find_qos(*facts.partition, facts.request.qos)) return;
  std::vector<std::string_view> names;
  std::string listed;
  for (const SiteQos& qos : facts.partition->qos) {
    names.push_back(qos.name);
    listed += (listed.empty() ? "" : ", ") + qos.name;
  }
  Finding finding = directive_finding("unknown-qos", *directive);
  const SitePartition* owner = owner_of_qos(facts.site, facts.request.qos);
  finding.why = format_text(
      "'{}' is {} of {}", facts.request.qos,
      owner == nullptr ? std::string("not a QoS") : format_text("a QoS of {} and not", owner->name),
      facts.partition->name);
  finding.fix = format_text("possible are {}", listed);
  const std::string_view nearest = nearest_word(facts.request.qos, names, 2);
  if (owner == nullptr && nearest.empty()) finding.severity = Severity::kWarning;
  if (owner == nullptr && !nearest.empty()) {
    finding.fix = format_text("write {}", nearest);
    finding.edit = new_value(*directive, std::string(nearest));
  }
  findings.push_back(held_against(std::move(finding), facts.partition->qos.front().provenance));
}

/// The QoS with the least time that still gives `time`; null: none.
const SiteQos* sufficient_qos(const SitePartition& partition, Seconds time) {
  const SiteQos* best = nullptr;
  for (const SiteQos& qos : partition.qos) {
    const auto limit = seconds_of(qos.max_time);
    if (!limit || *limit < time) continue;
    if (best == nullptr || *limit < *seconds_of(best->max_time)) best = &qos;
  }
  return best;
}

void add_time_limit(const ScriptFacts& facts, std::vector<Finding>& findings) {
  const Directive* directive = find_directive(facts.file, "time");
  const SitePartition& partition = *facts.partition;
  if (directive == nullptr) {
    // Where no job may go without one, that is an error of its own.
    if (partition.default_time.empty() || facts.site.time_required) return;
    Finding finding{.rule = "missing-time"};
    finding.why = format_text("without --time a job of {} ends after {}", partition.name,
                              partition.default_time);
    finding.fix =
        format_text("add --time={}", facts.site.time.empty() ? "H:MM:SS" : facts.site.time);
    if (!facts.site.time.empty()) {
      finding.edit = new_directive(facts.file, "--time=" + facts.site.time);
    }
    findings.push_back(held_against(std::move(finding), provenance_of(partition, "default_time")));
    return;
  }
  if (!facts.request.time) return;
  const SiteQos* qos = find_qos(partition, facts.request.qos);
  const bool by_qos = qos != nullptr && seconds_of(qos->max_time).has_value();
  const int nodes = facts.request.nodes.value_or(1);
  const std::string limit = by_qos ? qos->max_time : max_time_for(partition, nodes);
  const auto most = seconds_of(limit);
  const bool is_endless = facts.request.time->count() == 0;  // to Slurm 0 is no limit
  const auto asked = is_endless ? std::chrono::seconds::max() : *facts.request.time;
  if (!most || asked <= *most) return;
  Finding finding = directive_finding("time-over-limit", *directive);
  finding.why =
      format_text("{}{} is more than the {} of {}", *directive->value,
                  is_endless ? " (no limit)" : "", limit, by_qos ? qos->name : partition.name);
  const SiteQos* longer = sufficient_qos(partition, asked);
  if (longer == nullptr) {
    finding.fix =
        format_text("ask for {} at most, and let the job continue from a checkpoint", limit);
  } else {
    finding.fix = format_text("ask for {} at most, or write --qos={} ({})", limit, longer->name,
                              longer->max_time);
    if (facts.request.qos.empty()) {
      finding.edit = new_directive(facts.file, "--qos=" + longer->name);
    }
  }
  findings.push_back(held_against(std::move(finding),
                                  by_qos ? qos->provenance : provenance_of(partition, "max_time")));
}

void add_cores(const ScriptFacts& facts, std::vector<Finding>& findings) {
  const Directive* directive = find_directive(facts.file, "cpus-per-task");
  const SitePartition& partition = *facts.partition;
  const std::optional<int> cores = usable_cores(partition);
  const std::optional<int> tasks = facts.request.tasks_on_node();
  if (directive == nullptr || !facts.request.cpus_per_task || !cores || tasks.value_or(1) < 1) {
    return;
  }
  const Directive* hint = find_directive(facts.file, "hint");
  const bool counts_cores = hint != nullptr && hint->value == "nomultithread";
  // Without the hint Slurm counts hardware threads.
  const int threads = counts_cores ? 1 : partition.smt.value_or(facts.site.hint.empty() ? 1 : 2);
  const std::int64_t wanted = *facts.request.cpus_per_task;
  const std::int64_t usable = std::int64_t{*cores} * threads;
  if (wanted * tasks.value_or(1) <= usable) return;
  const std::int64_t share = usable / tasks.value_or(1);
  Finding finding = directive_finding("too-many-cores", *directive);
  finding.why = format_text(
      "{} with {} {} are {} on a node of {}, which has {}{}",
      tasks.value_or(1) == 1 ? "1 task" : format_text("{} tasks", *tasks), wanted,
      threads > 1 ? "hardware threads" : "cores", wanted * tasks.value_or(1), partition.name,
      usable,
      partition.cores_reserved.empty()
          ? ""
          : format_text(" for jobs (cores {} are the system's)", partition.cores_reserved));
  finding.fix =
      share > 0 ? format_text("write --cpus-per-task={}", share) : "ask for fewer tasks per node";
  if (share > 0) finding.edit = new_value(*directive, std::to_string(share));
  const std::string field = partition.cores_per_node ? "cores_per_node" : "cores_per_task";
  findings.push_back(held_against(std::move(finding), provenance_of(partition, field)));
}

const Directive* gpu_directive(const SbatchFile& file) {
  for (const char* option : {"gres", "gpus-per-node", "gpus", "gpus-per-task"}) {
    if (const Directive* directive = find_directive(file, option)) return directive;
  }
  return nullptr;
}

/// Full nodes of the partition that have at least the GPUs of `nodes` times `gpus`.
std::int64_t nodes_for(std::int64_t gpus, std::int64_t nodes, const SitePartition& partition) {
  return divide_up(gpus * nodes, partition.gpus_per_node);
}

void add_gpus(const ScriptFacts& facts, std::vector<Finding>& findings) {
  const Directive* directive = gpu_directive(facts.file);
  const SitePartition& partition = *facts.partition;
  const std::optional<int> gpus = facts.request.gpus_on_node();
  if (directive == nullptr || !gpus || partition.gpus_per_node < 1) return;
  const SiteQos* qos = find_qos(partition, facts.request.qos);
  const bool is_whole = partition.exclusive && (qos == nullptr || !qos->shares_nodes);
  if (*gpus > partition.gpus_per_node) {
    Finding finding = directive_finding("too-many-gpus", *directive);
    finding.why = format_text("{} GPUs on a node of {}, which has {}", *gpus, partition.name,
                              partition.gpus_per_node);
    finding.fix = format_text("ask for {} on each of {} nodes", partition.gpus_per_node,
                              nodes_for(*gpus, facts.request.nodes.value_or(1), partition));
    findings.push_back(held_against(std::move(finding), provenance_of(partition, "gpus/count")));
  } else if (*gpus < partition.gpus_per_node && is_whole) {
    Finding finding = directive_finding("idle-gpus", *directive);
    finding.why = format_text("{} of the {} GPUs of a node, which the job gets as a whole", *gpus,
                              partition.gpus_per_node);
    finding.fix = format_text("ask for {}", partition.gpus_per_node);
    findings.push_back(held_against(std::move(finding), provenance_of(partition, "exclusive")));
  }
  const int all = facts.request.gpus.value_or(*gpus * facts.request.nodes.value_or(1));
  if (qos == nullptr || !qos->max_gpus || all <= *qos->max_gpus) return;
  Finding finding = directive_finding("too-many-gpus", *directive);
  finding.why = format_text("{} GPUs in all, and {} gives {}", all, qos->name, *qos->max_gpus);
  finding.fix = "ask for fewer, or another QoS";
  findings.push_back(held_against(std::move(finding), qos->provenance));
}

void add_nodes(const ScriptFacts& facts, std::vector<Finding>& findings) {
  const Directive* directive = find_directive(facts.file, "nodes");
  if (directive == nullptr || !facts.request.nodes) return;
  const SiteQos* qos = find_qos(*facts.partition, facts.request.qos);
  const bool by_qos = qos != nullptr && qos->max_nodes;
  const std::optional<int> most = by_qos ? qos->max_nodes : facts.partition->max_nodes;
  if (!most || *facts.request.nodes <= *most) return;
  Finding finding = directive_finding("too-many-nodes", *directive);
  finding.why = format_text("{} nodes, and {} gives {}", *facts.request.nodes,
                            by_qos ? qos->name : facts.partition->name, *most);
  finding.fix = format_text("ask for {} at most", *most);
  findings.push_back(held_against(
      std::move(finding), by_qos ? qos->provenance : provenance_of(*facts.partition, "max_nodes")));
}

/// A job that its QoS is too large for.
void add_minima(const ScriptFacts& facts, std::vector<Finding>& findings) {
  const SiteQos* qos = find_qos(*facts.partition, facts.request.qos);
  const Directive* named = find_directive(facts.file, "qos");
  const auto add = [&](const Directive* directive, const char* unit, int asked,
                       const std::optional<int>& least, const std::string& field) {
    if (directive == nullptr) directive = named;
    if (directive == nullptr || !least || asked >= *least) return;
    Finding finding = directive_finding("below-minimum", *directive);
    finding.why =
        format_text("{} {} in all, and {} takes {} or more", asked, unit, qos->name, *least);
    finding.fix = format_text("ask for {} {}, or for another QoS", *least, unit);
    findings.push_back(held_against(std::move(finding), provenance_of(*qos, field)));
  };
  if (qos == nullptr) return;
  const int nodes = facts.request.nodes.value_or(1);
  add(find_directive(facts.file, "nodes"), "nodes", nodes, qos->min_nodes, "min_nodes");
  const std::optional<int> gpus = facts.request.gpus_on_node();
  if (!gpus && !facts.request.gpus) return;
  add(gpu_directive(facts.file), "GPUs", facts.request.gpus.value_or(gpus.value_or(0) * nodes),
      qos->min_gpus, "min_gpus");
}

}  // namespace

std::vector<Finding> check_limits(const ScriptFacts& facts) {
  std::vector<Finding> findings;
  add_partition(facts, findings);
  if (facts.partition == nullptr) return findings;
  add_qos(facts, findings);
  add_time_limit(facts, findings);
  add_cores(facts, findings);
  add_gpus(facts, findings);
  add_nodes(facts, findings);
  add_minima(facts, findings);
  return findings;
}

}  // namespace hvd
