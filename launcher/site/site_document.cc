// SPDX-License-Identifier: Apache-2.0
#include "launcher/site/site_document.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/format.h"

namespace hvd {
namespace {

constexpr std::array<std::string_view, 5> kNotInherited{"id", "aliases", "detect", "retired",
                                                        "extends"};

bool is_bookkeeping(const std::string& field) {
  return field == "source" || field == "sources" || field == "provenance" || field == "$schema";
}

/// The key under which `object` says where `field` comes from.
std::string key_of(const Json& object, const std::string& field, const std::string& inherited) {
  if (const auto sources = object.find("sources");
      sources != object.end() && sources->contains(field)) {
    return sources->at(field).get<std::string>();
  }
  return object.value("source", inherited);
}

/// Puts the site's id before the keys of a document, as two files may use one key for two pages.
void qualify(Json& node, const std::string& id) {
  if (node.is_array()) {
    for (Json& item : node) qualify(item, id);
  }
  if (!node.is_object()) return;
  for (auto& [field, value] : node.items()) {
    if (field == "provenance") {
      Json table = Json::object();
      for (const auto& [key, entry] : value.items()) table[format_text("{}/{}", id, key)] = entry;
      value = table;
    } else if (field == "source") {
      value = id + "/" + value.get<std::string>();
    } else if (field == "sources") {
      for (auto& [name, key] : value.items()) key = id + "/" + key.get<std::string>();
    } else {
      qualify(value, id);
    }
  }
}

/// An object or a list of objects that carries its source with it, whatever is around it.
Json with_source(Json value, const std::string& key) {
  if (value.is_object() && !value.contains("source")) value["source"] = key;
  if (value.is_array()) {
    for (Json& item : value) item = with_source(std::move(item), key);
  }
  return value;
}

Json extend_object(const Json& base, const Json& derived, const std::string& inherited);

Json* find_named(Json& list, const Json& name) {
  const auto found = std::find_if(list.begin(), list.end(),
                                  [&](const Json& item) { return item.at("name") == name; });
  return found == list.end() ? nullptr : &*found;
}

/// Partitions, QoS and NICs: those of one name become one.
Json join_by_name(const Json& base, const Json& derived, const std::string& inherited) {
  Json joined = base;
  for (const Json& item : derived) {
    if (Json* same = find_named(joined, item.at("name"))) {
      *same = extend_object(*same, item, inherited);
    } else {
      joined.push_back(with_source(item, inherited));
    }
  }
  return joined;
}

/// Variables and options, which may come twice: those of one name replace all of that name.
Json replace_by_name(const Json& base, const Json& derived, const char* name) {
  Json joined = Json::array();
  for (const Json& item : base) {
    const bool replaced = std::any_of(derived.begin(), derived.end(), [&](const Json& other) {
      return other.at(name) == item.at(name);
    });
    if (!replaced) joined.push_back(item);
  }
  joined.insert(joined.end(), derived.begin(), derived.end());
  return joined;
}

template <std::size_t kCount>
bool holds(const std::array<std::string_view, kCount>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr std::array<std::string_view, 3> kJoined{"partitions", "qos", "nics"};
constexpr std::array<std::string_view, 2> kVariables{"env", "reference"};
constexpr std::array<std::string_view, 2> kOptions{"directives", "forbidden"};

Json extend_value(const std::string& field, const Json& base, const Json& derived,
                  const std::string& key) {
  if (holds(kVariables, field)) return replace_by_name(base, with_source(derived, key), "name");
  if (holds(kOptions, field)) return replace_by_name(base, with_source(derived, key), "option");
  if (holds(kJoined, field)) return join_by_name(base, derived, key);
  return extend_object(base, derived, key);
}

/// "variables" of "detect" is an object too, but of plain values: it is a value itself.
bool is_plain(const std::string& field, const Json& value) {
  if (value.is_object()) return field == "variables";
  return !holds(kVariables, field) && !holds(kOptions, field) && !holds(kJoined, field);
}

Json extend_object(const Json& base, const Json& derived, const std::string& inherited) {
  Json result = base;
  for (const auto& [field, value] : derived.items()) {
    if (is_bookkeeping(field)) continue;
    const std::string key = key_of(derived, field, inherited);
    if (is_plain(field, value)) {
      result[field] = value;
      result["sources"][field] = key;
    } else {
      result[field] = base.contains(field) ? extend_value(field, base.at(field), value, key)
                                           : with_source(value, key);
    }
  }
  return result;
}

}  // namespace

Result<Json> parse_json(std::string_view text, const std::string& origin) {
  // Building and dropping a document takes no stack, but what looks at it later does.
  constexpr int kDeepest = 32;
  bool is_too_deep = false;
  const auto watch = [&is_too_deep](int depth, Json::parse_event_t /*event*/, Json& /*value*/) {
    is_too_deep = is_too_deep || depth > kDeepest;
    return true;
  };
  try {
    Json document = Json::parse(text, watch);
    if (!is_too_deep) return document;
    return error(Code::kInvalidArgument, "{}: objects and lists lie more than {} deep", origin,
                 kDeepest);
  } catch (const Json::parse_error& failure) {
    // "[json.exception.parse_error.101] parse error at line 3, column 5: syntax error ..."
    std::string what = failure.what();
    if (const std::size_t at = what.find("parse error at "); at != std::string::npos) {
      what.erase(0, at + std::string_view("parse error at ").size());
    }
    return error(Code::kInvalidArgument, "{}: {}", origin, what);
  }
}

Json extend_document(const Json& base, const Json& derived) {
  Json older = base;
  Json newer = derived;
  const std::string older_id = base.at("id").get<std::string>();
  const std::string newer_id = derived.at("id").get<std::string>();
  if (older_id != newer_id) {
    for (const std::string_view field : kNotInherited) {
      older.erase(std::string(field));
      if (older.contains("sources")) older["sources"].erase(std::string(field));
    }
  }
  qualify(older, older_id == newer_id ? older_id + "/base" : older_id);
  qualify(newer, newer_id);
  newer.erase("extends");
  Json result = extend_object(older, newer, "");
  result["id"] = newer_id;
  result["provenance"].update(newer.at("provenance"));
  return result;
}

}  // namespace hvd
