// SPDX-License-Identifier: Apache-2.0
#include "launcher/site/site_schema.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "launcher/console/words.h"
#include "launcher/site/site_embedded.h"

namespace hvd {
namespace {

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
    } else if (node->contains("additionalProperties") &&
               node->at("additionalProperties").is_object()) {
      node = &node->at("additionalProperties");
    } else {
      return nullptr;
    }
  }
  follow();
  return node;
}

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) names.push_back(name);
  return names;
}

/// As in the file, as far as a message has room.
std::string shown(const Json& value) {
  constexpr std::size_t kRoom = 120;
  std::string text = value.dump();
  return text.size() <= kRoom ? text : text.substr(0, kRoom) + "...";
}

/// The pointer of a text that is longer than any field's; empty: none. The standard library's
/// regular expressions, with which the schema is checked, take stack for each character.
std::string find_long_text(const Json& node, const std::string& pointer) {
  constexpr std::size_t kLongest = 2000;
  if (node.is_string() && node.get_ref<const std::string&>().size() > kLongest) return pointer;
  if (!node.is_structured()) return "";
  for (const auto& [field, value] : node.items()) {
    std::string found =
        find_long_text(value, format_text("{}/{}", pointer, field.substr(0, kLongest)));
    if (!found.empty()) return found;
  }
  return "";
}

/// What is wrong with the fields of an object: those that are unknown or missing.
std::vector<std::string> wrong_fields(const Json& value, const Json& schema) {
  std::vector<std::string> wrong;
  const Json& known = schema.at("properties");
  for (const std::string& name : keys_of(value)) {
    if (known.contains(name)) continue;
    wrong.push_back(format_text("unknown field '{}'; the known ones are {}", name,
                                joined(keys_of(known), ", ")));
  }
  for (const Json& required : schema.value("required", Json::array())) {
    if (value.contains(required.get<std::string>())) continue;
    const bool is_source = required == "source" && known.contains("sources");
    wrong.push_back(format_text(
        "the field '{}' is missing{}", required.get<std::string>(),
        is_source ? ": each value says where it was read, by a key of 'provenance'" : ""));
  }
  return wrong;
}

/// What a plain value should have been, from the schema of its place.
std::string expectation(const Json& value, const Json& schema) {
  if (schema.contains("enum")) {
    std::vector<std::string> allowed;
    for (const Json& item : schema.at("enum")) allowed.push_back(item.get<std::string>());
    return format_text("it is {}, but must be one of {}", shown(value), joined(allowed, ", "));
  }
  if (schema.contains("pattern") && value.is_string()) {
    return format_text("it is {}, which does not match {}", shown(value),
                       schema.at("pattern").get<std::string>());
  }
  const std::string type = schema.value("type", "");
  if (schema.contains("minimum") && value.is_number_integer()) {
    return format_text(
        "it is {}, but the smallest is {}{}", shown(value), schema.at("minimum").dump(),
        schema.contains("maximum") ? format_text(" and the largest {}", schema.at("maximum").dump())
                                   : "");
  }
  if (!type.empty()) return format_text("it is {}, but must be of type {}", shown(value), type);
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

using Failures = std::vector<valijson::ValidationResults::Error>;

/// Whether something inside the place of `failure` is wrong: then it may only repeat that.
bool has_inner(const valijson::ValidationResults::Error& failure, const Failures& all) {
  const std::vector<std::string>& outer = failure.context;
  return std::any_of(all.begin(), all.end(), [&outer](const auto& other) {
    return other.context.size() > outer.size() &&
           std::equal(outer.begin(), outer.end(), other.context.begin());
  });
}

/// What is wrong at the place of `failure` itself: "at /id: ...".
std::vector<std::string> describe(const valijson::ValidationResults::Error& failure,
                                  const Failures& all, const Json& document, const Json& schema) {
  const std::vector<std::string> path = path_of(failure.context);
  std::string pointer;
  const Json* value = &document;
  for (const std::string& step : path) {
    pointer += "/" + step;
    value = value->is_array() ? &value->at(std::stoul(step)) : &value->at(step);
  }
  const Json* rule = schema_at(schema, path);
  const bool repeats = has_inner(failure, all);
  std::vector<std::string> found;
  if (rule != nullptr && value->is_object() && rule->contains("properties")) {
    found = wrong_fields(*value, *rule);
  } else if (rule != nullptr && !repeats) {
    found.push_back(expectation(*value, *rule));
  }
  if (!found.empty() && found.front().empty()) found.clear();
  if (found.empty() && !repeats) found.push_back(failure.description);
  for (std::string& what : found) {
    what = format_text("at {}: {}", pointer.empty() ? "/" : pointer, what);
  }
  return found;
}

/// Puts "extending", what a document that extends another must say, in the place of "required".
void relax(Json& schema) {
  if (const auto extending = schema.find("extending"); extending != schema.end()) {
    schema["required"] = *extending;
  }
  for (Json& part : schema) {
    if (part.is_object()) relax(part);
  }
}

}  // namespace

std::vector<std::string> schema_errors(const Json& document, std::string_view schema_file) {
  if (const std::string pointer = find_long_text(document, ""); !pointer.empty()) {
    return {format_text("at {}: the text is too long: 1000 characters are enough", pointer)};
  }
  Json schema_json = Json::parse(embedded_file(schema_file));
  if (document.is_object() && document.contains("extends")) relax(schema_json);
  valijson::Schema schema;
  valijson::SchemaParser parser;
  parser.populateSchema(valijson::adapters::NlohmannJsonAdapter(schema_json), schema);
  valijson::Validator validator;
  valijson::ValidationResults results;
  if (validator.validate(schema, valijson::adapters::NlohmannJsonAdapter(document), &results)) {
    return {};
  }
  const Failures failures(results.begin(), results.end());
  std::vector<std::string> errors;
  for (const auto& failure : failures) {
    for (std::string& text : describe(failure, failures, document, schema_json)) {
      if (std::find(errors.begin(), errors.end(), text) != errors.end()) continue;
      errors.push_back(std::move(text));
    }
  }
  HVD_CHECK(!errors.empty());
  return errors;
}

Status document_status(std::vector<std::string> errors, const std::string& origin) {
  if (errors.empty()) return Status::ok();
  std::string text = errors.front();
  if (errors.size() > 1) {
    constexpr std::size_t kMost = 20;
    text = format_text("{} errors:", errors.size());
    for (std::size_t i = 0; i < std::min(errors.size(), kMost); ++i) text += "\n  " + errors[i];
    if (errors.size() > kMost) text += format_text("\n  and {} more", errors.size() - kMost);
  }
  return error(Code::kInvalidArgument, "{}: {}", origin, text);
}

Status validate_document(const Json& document, std::string_view schema_file,
                         const std::string& origin) {
  return document_status(schema_errors(document, schema_file), origin);
}

}  // namespace hvd
