// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/machine_environment.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "launcher/node/read_node.h"
#include "launcher/plan/machine_facts.h"
#include "launcher/site/fabric_variables.h"

namespace hvd {
namespace {

template <typename T>
void append(std::vector<T>&& more, std::vector<T>& list) {
  list.insert(list.end(), std::make_move_iterator(more.begin()),
              std::make_move_iterator(more.end()));
}

void append(OfferedEnvironment&& more, MachineEnvironment& machine) {
  append(std::move(more.variables), machine.offered);
  append(std::move(more.unset), machine.unset);
}

/// What a site's own variables say goes before what is concluded from its other fields.
void leave_out(const OfferedEnvironment& said, OfferedEnvironment& concluded) {
  const auto is_said = [&said](const auto& variable) {
    return std::any_of(said.variables.begin(), said.variables.end(),
                       [&](const PlannedVariable& other) { return other.name == variable.name; });
  };
  std::erase_if(concluded.variables, is_said);
  std::erase_if(concluded.unset, is_said);
}

bool names_interfaces(const SiteConfig& site) {
  return !site.bootstrap_if.empty() ||
         std::any_of(site.partitions.begin(), site.partitions.end(),
                     [](const SitePartition& one) { return !one.bootstrap_if.empty(); });
}

}  // namespace

MachineEnvironment plan_machine(const SiteConfig& site, const std::vector<SiteVariable>& fabric,
                                const SiteFacts& facts, bool assume, const MeetingFacts& meeting) {
  MachineEnvironment machine;
  OfferedEnvironment of_site = offer_variables(site.env, "site " + site.id, facts, assume);
  OfferedEnvironment of_interfaces = offer_interfaces(site, facts, meeting, assume);
  leave_out(of_site, of_interfaces);
  append(std::move(of_site), machine);
  append(std::move(of_interfaces), machine);
  append(offer_master(site, facts, meeting, assume), machine);
  append(offer_variables(fabric, "fabric " + facts.fabric.value_or(""), facts, assume), machine);
  return machine;
}

MachineEnvironment read_machine(const SiteConfig& site, const Allocation& allocation,
                                SiteFacts& facts, bool assume) {
  const bool is_asked = facts.nodes > 1 && names_interfaces(site);
  const MeetingFacts meeting = read_meeting(allocation, is_asked && !facts.fabric);
  if (!facts.fabric) set_fabric(read_node("", {.nics = true}).nics, facts);
  const std::string kind = facts.fabric.value_or("");
  std::vector<SiteVariable> fabric;
  if (!kind.empty() && kind != "ethernet") fabric = fabric_variables(kind);
  std::vector<SiteVariable> all = site.env;
  all.insert(all.end(), fabric.begin(), fabric.end());
  read_facts(asked_facts(all), allocation.environment, facts);
  if (allocation.srun() != nullptr) start_step_here(site, facts);
  return plan_machine(site, fabric, facts, assume, meeting);
}

}  // namespace hvd
