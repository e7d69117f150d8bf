// SPDX-License-Identifier: Apache-2.0
#include "launcher/site/site_file.h"

#include <nlohmann/json.hpp>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "launcher/site/site_embedded.h"

namespace hvd {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kSchemaFile = "schema/site.schema.json";

Result<Json> parse_json(std::string_view text, const std::string& origin) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& failure) {
    // "[json.exception.parse_error.101] parse error at line 3, column 5: syntax error ..."
    std::string what = failure.what();
    if (const std::size_t at = what.find("parse error at "); at != std::string::npos) {
      what.erase(0, at + std::string_view("parse error at ").size());
    }
    return error(Code::kInvalidArgument, "{}: {}", origin, what);
  }
}

/// The part of the schema that describes the value at `path`; null where it says nothing.
const Json* schema_at(const Json& root, const std::vector<std::string>& path) {
  const Json* node = &root;
  const auto follow = [&root, &node] {
    while (node->contains("$ref")) {
      const std::string reference = node->at("$ref").get<std::string>();
      node = &root.at(Json::json_pointer(reference.substr(1)));
    }
  };
  for (const std::string& step : path) {
    follow();
    if (node->contains("items")) {
      node = &node->at("items");
    } else if (node->contains("properties") && node->at("properties").contains(step)) {
      node = &node->at("properties").at(step);
    } else {
      return nullptr;
    }
  }
  follow();
  return node;
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::vector<std::string> names_of(const Json& object) {
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) names.push_back(name);
  return names;
}

/// What `value` should have been, from the schema of its place.
std::string expectation(const Json& value, const Json& schema) {
  if (schema.contains("enum")) {
    std::vector<std::string> allowed;
    for (const Json& item : schema.at("enum")) allowed.push_back(item.get<std::string>());
    return format_text("it is {}, but must be one of {}", value.dump(), join(allowed));
  }
  if (schema.contains("type") && schema.at("type").get<std::string>() == "object" &&
      value.is_object() && schema.contains("properties")) {
    for (const std::string& name : names_of(value)) {
      if (!schema.at("properties").contains(name)) {
        return format_text("unknown field '{}'; the known ones are {}", name,
                           join(names_of(schema.at("properties"))));
      }
    }
    for (const Json& required : schema.value("required", Json::array())) {
      if (!value.contains(required.get<std::string>())) {
        return format_text("the field '{}' is missing", required.get<std::string>());
      }
    }
    return "";
  }
  if (schema.contains("pattern") && value.is_string()) {
    return format_text("it is {}, which does not match {}", value.dump(),
                       schema.at("pattern").get<std::string>());
  }
  const std::string type = schema.value("type", "");
  if (schema.contains("minimum") && value.is_number_integer()) {
    return format_text(
        "it is {}, but the smallest is {}{}", value.dump(), schema.at("minimum").dump(),
        schema.contains("maximum") ? format_text(" and the largest {}", schema.at("maximum").dump())
                                   : "");
  }
  if (!type.empty()) return format_text("it is {}, but must be of type {}", value.dump(), type);
  return "";
}

/// "<root>", "[partitions]", "[0]" -> partitions, 0
std::vector<std::string> path_of(const std::vector<std::string>& context) {
  std::vector<std::string> path;
  for (const std::string& step : context) {
    if (step.size() > 2 && step.front() == '[') path.push_back(step.substr(1, step.size() - 2));
  }
  return path;
}

Status describe(const valijson::ValidationResults::Error& failure, const Json& document,
                const Json& schema, const std::string& origin) {
  const std::vector<std::string> path = path_of(failure.context);
  std::string pointer;
  const Json* value = &document;
  for (const std::string& step : path) {
    pointer += "/" + step;
    value = value->is_array() ? &value->at(std::stoul(step)) : &value->at(step);
  }
  const Json* rule = schema_at(schema, path);
  std::string what = rule == nullptr ? "" : expectation(*value, *rule);
  if (what.empty()) what = failure.description;
  return error(Code::kInvalidArgument, "{}: at {}: {} (fields: docs/reference/site-schema.md)",
               origin, pointer.empty() ? "/" : pointer, what);
}

Status validate(const Json& document, const std::string& origin) {
  const Json schema_json = Json::parse(embedded_file(kSchemaFile));
  valijson::Schema schema;
  valijson::SchemaParser parser;
  parser.populateSchema(valijson::adapters::NlohmannJsonAdapter(schema_json), schema);
  valijson::Validator validator;
  valijson::ValidationResults results;
  if (validator.validate(schema, valijson::adapters::NlohmannJsonAdapter(document), &results)) {
    return Status::ok();
  }
  // The deepest place is the cause; those around it only repeat that something inside is wrong.
  const valijson::ValidationResults::Error* deepest = nullptr;
  for (const auto& failure : results) {
    if (deepest == nullptr || failure.context.size() > deepest->context.size()) deepest = &failure;
  }
  HVD_CHECK(deepest != nullptr);
  return describe(*deepest, document, schema_json, origin);
}

std::string text_of(const Json& object, const char* key, const std::string& fallback = "") {
  return object.value(key, fallback);
}

std::vector<std::string> words_of(const Json& object, const char* key) {
  return object.value(key, std::vector<std::string>());
}

std::optional<int> count_of(const Json& object, const char* key) {
  if (!object.contains(key)) return std::nullopt;
  return object.at(key).get<int>();
}

Provenance provenance_of(const Json& object) {
  return {text_of(object, "source"), text_of(object, "date"), text_of(object, "mark")};
}

SitePartition partition_of(const Json& json) {
  SitePartition partition;
  partition.name = text_of(json, "name");
  partition.aliases = words_of(json, "aliases");
  const std::string select = text_of(json, "select");
  if (select == "partition") partition.select = PartitionSelect::kPartition;
  if (select == "constraint") partition.select = PartitionSelect::kConstraint;
  partition.constraint = text_of(json, "constraint");
  partition.gpu_model = text_of(json.at("gpus"), "model");
  partition.gpus_per_node = json.at("gpus").at("count").get<int>();
  partition.cores_per_task = json.at("cores_per_task").get<int>();
  partition.max_nodes = count_of(json, "max_nodes");
  partition.max_time = text_of(json, "max_time");
  for (const Json& qos : json.value("qos", Json::array())) {
    partition.qos.push_back({text_of(qos, "name"), text_of(qos, "max_time"),
                             count_of(qos, "max_gpus"), qos.value("default", false)});
  }
  partition.account_suffix = text_of(json, "account_suffix");
  partition.modules = words_of(json, "modules");
  partition.provenance = provenance_of(json);
  return partition;
}

SiteDetect detect_of(const Json& site) {
  const Json json = site.value("detect", Json::object());
  return {words_of(json, "cluster_names"), words_of(json, "system_names"),
          text_of(json, "hostname")};
}

SiteConfig site_of(const Json& json) {
  SiteConfig site;
  site.id = text_of(json, "id");
  site.name = text_of(json, "name");
  site.aliases = words_of(json, "aliases");
  site.retired = text_of(json, "retired");
  site.detect = detect_of(json);
  site.shell = text_of(json, "shell", site.shell);
  for (const Json& item : json.at("partitions")) site.partitions.push_back(partition_of(item));
  const Json account = json.value("account", Json::object());
  site.account_pattern = text_of(account, "pattern");
  site.account_example = text_of(account, "example");
  const std::string gres = text_of(json, "gres_style");
  if (gres == "gpus-per-node") site.gres_style = GresStyle::kGpusPerNode;
  if (gres == "none") site.gres_style = GresStyle::kNone;
  site.time = text_of(json, "time");
  for (const Json& item : json.value("directives", Json::array())) {
    site.directives.push_back(
        {text_of(item, "option"), text_of(item, "value"), text_of(item, "why")});
  }
  site.srun_flags = words_of(json, "srun_flags");
  for (const Json& item : json.at("env")) {
    site.env.push_back({text_of(item, "name"), text_of(item, "value"), text_of(item, "when"),
                        text_of(item, "why"), provenance_of(item)});
  }
  site.modules = words_of(json, "modules");
  for (const Json& item : json.value("forbidden", Json::array())) {
    site.forbidden.push_back({text_of(item, "option"), text_of(item, "why")});
  }
  return site;
}

}  // namespace

Result<SiteConfig> parse_site(std::string_view text, const std::string& origin) {
  HVD_TRY_ASSIGN(const Json document, parse_json(text, origin));
  HVD_TRY(validate(document, origin));
  SiteConfig site = site_of(document);
  site.origin = origin;
  for (const SitePartition& partition : site.partitions) {
    if (partition.select == PartitionSelect::kConstraint && partition.constraint.empty()) {
      return error(Code::kInvalidArgument,
                   "{}: partition '{}' is selected by constraint but has no 'constraint' field",
                   origin, partition.name);
    }
  }
  return site;
}

}  // namespace hvd
