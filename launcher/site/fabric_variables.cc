// SPDX-License-Identifier: Apache-2.0
#include "launcher/site/fabric_variables.h"

#include <nlohmann/json.hpp>

#include "launcher/site/condition.h"
#include "launcher/site/site_document.h"
#include "launcher/site/site_embedded.h"
#include "launcher/site/site_schema.h"

namespace hvd {
namespace {

constexpr std::string_view kFile = "fabrics.json";
constexpr std::string_view kSchema = "schema/fabrics.schema.json";

Provenance entry_of(const Json& document, const Json& variable) {
  const Json& entry = document.at("provenance").at(variable.at("source").get<std::string>());
  return {entry.at("source").get<std::string>(), entry.at("date").get<std::string>(),
          entry.at("mark").get<std::string>()};
}

}  // namespace

std::vector<SiteVariable> fabric_variables(std::string_view kind) {
  std::vector<SiteVariable> variables;
  const Json document = Json::parse(embedded_file(kFile));
  for (const Json& fabric : document.at("fabrics")) {
    if (fabric.at("kind") != kind) continue;
    for (const Json& item : fabric.at("env")) {
      variables.push_back({item.at("name").get<std::string>(), item.at("value").get<std::string>(),
                           item.at("when").get<std::string>(), item.at("why").get<std::string>(),
                           entry_of(document, item)});
    }
  }
  return variables;
}

std::vector<std::string> fabric_kinds() {
  std::vector<std::string> kinds;
  const Json document = Json::parse(embedded_file(kFile));
  for (const Json& fabric : document.at("fabrics")) {
    kinds.push_back(fabric.at("kind").get<std::string>());
  }
  return kinds;
}

Status check_fabrics() {
  const std::string origin(kFile);
  HVD_TRY_ASSIGN(const Json document, parse_json(embedded_file(kFile), origin));
  HVD_TRY(validate_document(document, kSchema, origin));
  for (const Json& fabric : document.at("fabrics")) {
    for (const Json& item : fabric.at("env")) {
      const std::string name = item.at("name").get<std::string>();
      const auto condition = parse_condition(item.at("when").get<std::string>());
      if (!condition.is_ok()) return condition.status().with_context(name);
      if (document.at("provenance").contains(item.at("source").get<std::string>())) continue;
      return error(Code::kInvalidArgument, "{}: {} has an unknown source", origin, name);
    }
  }
  return Status::ok();
}

}  // namespace hvd
