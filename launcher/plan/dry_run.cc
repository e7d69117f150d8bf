// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/dry_run.h"

#include <algorithm>
#include <set>

#include "base/format.h"
#include "launcher/console/shell_word.h"
#include "launcher/options/command_description.h"
#include "launcher/plan/binding_report.h"
#include "launcher/site/secret.h"
#include "topology/hostlist.h"

namespace hvd {
namespace {

std::string shown(const PlannedVariable& variable) {
  return variable.name + "=" + (variable.is_secret ? "(redacted)" : variable.value);
}

/// "  NAME=value     why": wrapped where there is a width.
std::string explained_line(const std::string& setting, const std::string& why, std::size_t width) {
  constexpr std::size_t kColumn = 39;
  if (width == 0) return format_text("  {:<36} {}\n", setting, why);
  return explained_term(setting, why, std::min(kColumn, width / 2), width);
}

void describe_variables(const std::vector<PlannedVariable>& variables, std::size_t width,
                        std::string& text) {
  for (const PlannedVariable& variable : variables) {
    text += explained_line(shown(variable),
                           format_text("{}: {}", variable.origin, explained(variable)), width);
  }
}

void describe_placement(const Placement& placement, std::string& text) {
  const bool is_virtual = placement.virtual_nodes > 1;
  // A PMIx server that passes on no SLURM_* tells the size only to its clients.
  const std::string size = placement.size > 0 ? std::to_string(placement.size) : "?";
  text += format_text("placement: {} rank{} on {} {}node{} ({})\n", size,
                      placement.size == 1 ? "" : "s", placement.node_count,
                      is_virtual ? "virtual " : "", placement.node_count == 1 ? "" : "s",
                      is_virtual ? placement.hosts.front() : compress_hostlist(placement.hosts));
  for (const std::string& note : placement.notes) text += "  " + note + "\n";
  for (const std::string& warning : placement.warnings) text += "  warning: " + warning + "\n";
  const std::vector<int> each =
      placement.srun ? placement.srun->ranks_per_node : std::vector<int>();
  for (std::size_t node = 0; node < each.size(); ++node) {
    const int ranks = each[node];
    text += format_text("  {}: {} rank{}\n", placement.hosts[node], ranks, ranks == 1 ? "" : "s");
  }
  for (const RankPlacement& rank : placement.ranks) {
    text += format_text("  rank {}: node {}, local rank {} of {}, GPU {}, CPUs {}\n", rank.rank,
                        rank.node, rank.local_rank, rank.local_size,
                        rank.gpu ? std::to_string(*rank.gpu) : "none",
                        rank.cpus.empty() ? "as inherited" : format_cpu_set(rank.cpus));
    if (placement.reports_bindings) {
      text += format_text("  {}\n", report_binding(placement.topology, rank));
    }
  }
}

}  // namespace

std::string describe_run(const Placement& placement, const EnvironmentPlan& plan,
                         const std::vector<Command>& commands, std::size_t width) {
  std::string text;
  describe_placement(placement, text);
  text += "environment of every rank, beside what it inherits:\n";
  describe_variables(plan.all, width, text);
  if (!plan.by_task.empty()) text += "environment that the hvdrun in each task adds:\n";
  describe_variables(plan.by_task, width, text);
  for (std::size_t i = 0; i < plan.each_rank.size(); ++i) {
    if (plan.each_rank[i].empty()) continue;
    text += format_text("environment of rank {}:\n", placement.ranks[i].rank);
    describe_variables(plan.each_rank[i], width, text);
  }
  for (std::size_t i = 0; i < plan.each_spare.size(); ++i) {
    text += format_text("environment of spare {}:\n", placement.elastic->spares[i].rank);
    describe_variables(plan.each_spare[i], width, text);
  }
  if (!plan.unset.empty()) text += "offered by site or fabric, and not set:\n";
  for (const UnsetVariable& variable : plan.unset) {
    text += explained_line(variable.name + "=" + variable.value,
                           format_text("{}: {}", variable.origin, variable.why_not), width);
  }
  if (!plan.cleared.empty()) {
    text += "cleared, since another launcher set them:\n ";
    for (const std::string& name : plan.cleared) text += " " + name;
    text += "\n";
  }
  std::set<std::string> hosts;
  for (const Command& command : commands) {
    if (!hosts.insert(command.host).second) continue;
    text += format_text("command on {}:\n  {}\n", command.host,
                        shell_line(shown_arguments(command.arguments)));
  }
  return text + "nothing was started\n";
}

}  // namespace hvd
