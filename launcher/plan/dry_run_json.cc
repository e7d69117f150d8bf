// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "launcher/plan/dry_run.h"
#include "launcher/site/secret.h"

namespace hvd {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson variables_json(const std::vector<PlannedVariable>& variables) {
  OrderedJson list = OrderedJson::array();
  for (const PlannedVariable& variable : variables) {
    OrderedJson one{{"name", variable.name}};
    if (!variable.is_secret) one["value"] = variable.value;
    one["origin"] = variable.origin;
    one["why"] = variable.why;
    if (!variable.provenance.source.empty()) {
      one["source"] = variable.provenance.source;
      one["date"] = variable.provenance.date;
      one["mark"] = variable.provenance.mark;
    }
    list.push_back(std::move(one));
  }
  return list;
}

OrderedJson rank_json(const RankPlacement& rank, const std::vector<PlannedVariable>& variables) {
  OrderedJson one{{"rank", rank.rank},
                  {"host", rank.host},
                  {"node", rank.node},
                  {"local_rank", rank.local_rank},
                  {"local_size", rank.local_size}};
  if (rank.gpu) one["gpu"] = *rank.gpu;
  if (!rank.gpu_id.empty()) one["gpu_id"] = rank.gpu_id;
  if (!rank.nic.empty()) one["nic"] = rank.nic;
  if (!rank.cpus.empty()) one["cpus"] = format_cpu_set(rank.cpus);
  one["environment"] = variables_json(variables);
  return one;
}

}  // namespace

std::string describe_run_json(const Placement& placement, const EnvironmentPlan& plan,
                              const std::vector<Command>& commands) {
  OrderedJson json{
      {"nodes", placement.node_count},
      {"virtual_nodes", placement.virtual_nodes},
      {"hosts", placement.hosts},
      {"ranks_per_node", placement.srun ? placement.srun->ranks_per_node : std::vector<int>()},
      {"notes", placement.notes},
      {"warnings", placement.warnings},
      {"environment", variables_json(plan.all)},
      {"environment_by_task", variables_json(plan.by_task)},
      {"cleared", plan.cleared},
      {"ranks", OrderedJson::array()},
      {"commands", OrderedJson::array()}};
  // A PMIx server that passes on no SLURM_* tells the size only to its clients.
  if (placement.size > 0) json["size"] = placement.size;
  for (std::size_t i = 0; i < placement.ranks.size(); ++i) {
    json["ranks"].push_back(rank_json(placement.ranks[i], i < plan.each_rank.size()
                                                              ? plan.each_rank[i]
                                                              : std::vector<PlannedVariable>()));
  }
  if (placement.elastic) {
    json["min_size"] = placement.elastic->min_size;
    json["spares"] = OrderedJson::array();
    for (std::size_t i = 0; i < placement.elastic->spares.size(); ++i) {
      const RankPlacement& spare = placement.elastic->spares[i];
      json["spares"].push_back(OrderedJson{{"process", spare.rank},
                                           {"host", spare.host},
                                           {"node", spare.node},
                                           {"environment", variables_json(plan.each_spare[i])}});
    }
  }
  for (const Command& command : commands) {
    OrderedJson one{{"host", command.host}, {"arguments", shown_arguments(command.arguments)}};
    if (command.rank) one["rank"] = *command.rank;
    json["commands"].push_back(std::move(one));
  }
  // Host names and variables may hold any bytes: what is not UTF-8 is replaced.
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace hvd
