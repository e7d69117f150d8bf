// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "launcher/env/env_report.h"
#include "launcher/env/sites_report.h"

namespace hvd {
namespace {

using OrderedJson = nlohmann::ordered_json;

/// Foreign bytes in an environment need not be UTF-8.
std::string printed(const OrderedJson& document) {
  return document.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

void add_provenance(const Provenance& provenance, OrderedJson& json) {
  if (provenance.source.empty()) return;
  json["source"] = provenance.source;
  json["date"] = provenance.date;
  json["mark"] = provenance.mark;
}

template <typename T>
OrderedJson or_null(const std::optional<T>& fact) {
  return fact ? OrderedJson(*fact) : OrderedJson(nullptr);
}

OrderedJson facts_of(const SiteFacts& facts) {
  OrderedJson json;
  json["nodes"] = facts.nodes;
  json["gpus_per_node"] = facts.gpus_per_node;
  json["fabric"] = or_null(facts.fabric);
  json["interfaces"] = facts.interfaces;
  json["devices"] = facts.devices;
  json["nccl"] = or_null(facts.nccl);
  json["plugin_found"] = or_null(facts.plugin_found);
  json["container"] = or_null(facts.container);
  json["gpu_vendor"] = or_null(facts.gpu_vendor);
  json["partition"] = or_null(facts.partition);
  return json;
}

OrderedJson variable_of(const PlannedVariable& variable) {
  const auto shown = [&](const std::string& value) {
    return variable.is_secret ? OrderedJson(nullptr) : OrderedJson(value);
  };
  OrderedJson json;
  json["name"] = variable.name;
  json["value"] = shown(variable.value);
  json["origin"] = variable.origin;
  json["why"] = variable.why;
  add_provenance(variable.provenance, json);
  json["overridden"] = OrderedJson::array();
  for (const OverriddenValue& other : variable.overridden) {
    json["overridden"].push_back({{"value", shown(other.value)}, {"origin", other.origin}});
  }
  return json;
}

OrderedJson site_of(const SiteLine& line) {
  OrderedJson json;
  json["id"] = line.entry.id;
  json["name"] = line.entry.name;
  json["aliases"] = line.entry.aliases;
  json["origin"] = line.entry.origin;
  json["retired"] = nullptr;
  if (!line.entry.retired.empty()) json["retired"] = line.entry.retired;
  json["here"] = line.is_here;
  json["values"] = {{"documented", line.counts.documented},
                    {"seen", line.counts.seen},
                    {"assumed", line.counts.assumed}};
  return json;
}

}  // namespace

std::string env_json(const EnvReport& report) {
  OrderedJson json;
  json["site"] = {{"id", report.site.id},
                  {"name", report.site.name},
                  {"origin", report.site.origin},
                  {"found_by", report.site.found_by}};
  json["facts"] = facts_of(report.facts);
  json["variables"] = OrderedJson::array();
  for (const PlannedVariable& variable : report.variables) {
    json["variables"].push_back(variable_of(variable));
  }
  json["not_set"] = OrderedJson::array();
  for (const UnsetVariable& variable : report.unset) {
    OrderedJson item;
    item["name"] = variable.name;
    item["value"] = variable.value;
    item["origin"] = variable.origin;
    item["why_not"] = variable.why_not;
    add_provenance(variable.provenance, item);
    json["not_set"].push_back(std::move(item));
  }
  return printed(json);
}

std::string sites_json(const SitesReport& report) {
  OrderedJson json;
  json["here"] = {{"id", report.here}, {"evidence", report.evidence}};
  json["sites"] = OrderedJson::array();
  for (const SiteLine& line : report.sites) json["sites"].push_back(site_of(line));
  return printed(json);
}

std::string site_json(const nlohmann::json& document) {
  OrderedJson json;
  for (const char* first : {"id", "name", "aliases", "retired", "provenance", "source"}) {
    if (document.contains(first)) json[first] = document.at(first);
  }
  for (const auto& [field, value] : document.items()) {
    if (field != "$schema" && !json.contains(field)) json[field] = value;
  }
  return printed(json);
}

}  // namespace hvd
