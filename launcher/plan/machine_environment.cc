// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/machine_environment.h"

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

}  // namespace

MachineEnvironment plan_machine(const SiteConfig& site, const std::vector<SiteVariable>& fabric,
                                const SiteFacts& facts, bool assume) {
  MachineEnvironment machine;
  OfferedEnvironment of_site = offer_variables(site.env, "site " + site.id, facts, assume);
  machine.offered = std::move(of_site.variables);
  machine.unset = std::move(of_site.unset);
  OfferedEnvironment of_fabric =
      offer_variables(fabric, "fabric " + facts.fabric.value_or(""), facts, assume);
  append(std::move(of_fabric.variables), machine.offered);
  append(std::move(of_fabric.unset), machine.unset);
  return machine;
}

MachineEnvironment read_machine(const SiteConfig& site, const Environment& environment,
                                SiteFacts& facts, bool assume) {
  if (!facts.fabric) set_fabric(read_node("", {.nics = true}).nics, facts);
  const std::string kind = facts.fabric.value_or("");
  std::vector<SiteVariable> fabric;
  if (!kind.empty() && kind != "ethernet") fabric = fabric_variables(kind);
  std::vector<SiteVariable> all = site.env;
  all.insert(all.end(), fabric.begin(), fabric.end());
  read_facts(asked_facts(all), environment, facts);
  return plan_machine(site, fabric, facts, assume);
}

}  // namespace hvd
