// SPDX-License-Identifier: Apache-2.0
#include "launcher/site/site_values.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/format.h"

namespace hvd {
namespace {

constexpr std::array<std::string_view, 9> kNoValues{
    "$schema", "id", "extends", "aliases", "provenance", "source", "sources", "notes", "retired"};
constexpr std::array<std::string_view, 5> kOneValue{"env", "forbidden", "directives", "reference",
                                                    "nics"};

template <std::size_t kCount>
bool is_among(const std::array<std::string_view, kCount>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string text_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();  // "detect/variables" is an object
  std::string text;
  for (const Json& item : value) text += (text.empty() ? "" : ", ") + text_of(item);
  return text;
}

/// A variable, an option, a NIC or a measured bandwidth in a few words.
std::string entry_text(const Json& item) {
  std::string text;
  for (const auto& [field, value] : item.items()) {
    const bool is_text = field == "name" || field == "option" || field == "why";
    if (is_text || is_among(kNoValues, field)) continue;
    text += (text.empty() ? "" : ", ") + (field == "value" ? "" : field + " ") + text_of(value);
  }
  return text.empty() ? "yes" : text;
}

/// Walks a document with the source that holds where it is.
class ValueCollector {
 public:
  explicit ValueCollector(const Json& document) : provenance_(document.at("provenance")) {}

  void collect(const Json& object, const std::string& place, const std::string& inherited) {
    const std::string own = object.value("source", inherited);
    for (const auto& [field, value] : object.items()) {
      if (is_among(kNoValues, field) || field == "why" || (place.empty() && field == "name"))
        continue;
      if (value.is_structured() && value.empty()) continue;
      const std::string key =
          object.contains("sources") ? object.at("sources").value(field, own) : own;
      add(field, value, place.empty() ? field : format_text("{}/{}", place, field), key);
    }
  }
  std::vector<SiteValue> take() { return std::move(values_); }

 private:
  void add(const std::string& field, const Json& value, const std::string& place,
           const std::string& key) {
    const bool has_objects = value.is_array() && value.front().is_object();
    if (has_objects) {
      for (const Json& item : value) {
        const std::string name = place + "/" + item.value("name", item.value("option", ""));
        const std::string own = item.value("source", key);
        if (is_among(kOneValue, field)) {
          add_value(entry_text(item), name, own);
        } else {
          collect(item, name, own);
        }
      }
    } else if (value.is_object() && field != "variables") {
      collect(value, place, key);
    } else {
      add_value(text_of(value), place, key);
    }
  }

  void add_value(std::string text, const std::string& place, const std::string& key) {
    const Json& entry = provenance_.at(key);
    values_.push_back(
        {place,
         std::move(text),
         {text_of(entry.at("source")), text_of(entry.at("date")), text_of(entry.at("mark"))}});
  }

  const Json& provenance_;
  std::vector<SiteValue> values_;
};

}  // namespace

std::vector<SiteValue> site_values(const Json& document) {
  ValueCollector collector(document);
  collector.collect(document, "", "");
  return collector.take();
}

MarkCounts count_marks(const std::vector<SiteValue>& values) {
  MarkCounts counts;
  for (const SiteValue& value : values) {
    if (value.provenance.mark == "documented") ++counts.documented;
    if (value.provenance.mark == "seen") ++counts.seen;
    if (value.provenance.mark == "assumed") ++counts.assumed;
  }
  return counts;
}

}  // namespace hvd
