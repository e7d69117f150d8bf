// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <nlohmann/json.hpp>

#include "launcher/site/condition.h"
#include "launcher/site/pattern.h"
#include "launcher/site/site_file.h"
#include "launcher/site/site_schema.h"

namespace hvd {
namespace {

/// The names of an object's fields, for messages.
std::string names_of(const Json& object) {
  std::string names;
  for (const auto& [name, value] : object.items()) names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? "none" : names;
}

/// Walks a document that matches the schema and collects what the schema cannot refuse.
class SiteChecker {
 public:
  explicit SiteChecker(const Json& document)
      : provenance_(document.at("provenance")), document_(document) {}

  std::vector<std::string> check() {
    check_sources(document_, "");
    check_patterns();
    check_conditions();
    for (std::size_t i = 0; i < document_.at("partitions").size(); ++i) {
      check_partition(document_.at("partitions").at(i), format_text("/partitions/{}", i));
    }
    return std::move(errors_);
  }

 private:
  void add(const std::string& pointer, const std::string& what) {
    errors_.push_back(format_text("at {}: {}", pointer, what));
  }

  void check_key(const std::string& key, const std::string& pointer) {
    if (provenance_.contains(key)) return;
    add(pointer,
        format_text("'{}' is not a key of 'provenance', which has {}", key, names_of(provenance_)));
  }

  /// Each source is known, and each field with a source of its own is there.
  void check_sources(const Json& node, const std::string& pointer) {
    if (node.is_array()) {
      for (std::size_t i = 0; i < node.size(); ++i) {
        check_sources(node[i], format_text("{}/{}", pointer, i));
      }
    }
    if (!node.is_object()) return;
    for (const auto& [field, value] : node.items()) {
      const std::string place = format_text("{}/{}", pointer, field);
      if (field == "source") {
        check_key(value.get<std::string>(), place);
      } else if (field == "sources") {
        check_field_sources(node, value, place);
      } else if (field != "provenance") {
        check_sources(value, place);
      }
    }
  }

  void check_field_sources(const Json& node, const Json& sources, const std::string& pointer) {
    for (const auto& [name, key] : sources.items()) {
      const std::string own = format_text("{}/{}", pointer, name);
      check_key(key.get<std::string>(), own);
      if (node.contains(name)) continue;
      add(own, format_text("there is no field '{}' beside it; there are {}", name, names_of(node)));
    }
  }

  void check_patterns() {
    for (const char* pointer : {"/detect/hostname", "/account/pattern"}) {
      const Json::json_pointer place(pointer);
      if (!document_.contains(place)) continue;
      const auto matches = pattern_matches(document_.at(place).get<std::string>(), "");
      if (!matches.is_ok()) add(pointer, matches.status().message());
    }
  }

  void check_conditions() {
    for (std::size_t i = 0; i < document_.at("env").size(); ++i) {
      const auto condition =
          parse_condition(document_.at("env").at(i).at("when").get<std::string>());
      if (condition.is_ok()) continue;
      add(format_text("/env/{}/when", i), condition.status().message());
    }
  }

  void check_partition(const Json& partition, const std::string& pointer) {
    const std::string name = partition.at("name").get<std::string>();
    if (partition.at("select") == "constraint" && !partition.contains("constraint")) {
      add(pointer, format_text("partition '{}' is selected by constraint but has no 'constraint' "
                               "field",
                               name));
    }
    const int gpus = partition.at("gpus").at("count").get<int>();
    const std::size_t mapped = partition.value("cpu_map", Json::array()).size();
    if (mapped != 0 && mapped != static_cast<std::size_t>(gpus)) {
      add(pointer + "/cpu_map",
          format_text("it has {} entries, but a node has {} GPUs: one for each", mapped, gpus));
    }
    const int cores = std::max(gpus, 1) * partition.at("cores_per_task").get<int>();
    if (const int usable = partition.value("cores_per_node", cores); cores > usable) {
      add(pointer + "/cores_per_task",
          format_text("{} tasks of {} cores are more than the {} of cores_per_node",
                      std::max(gpus, 1), partition.at("cores_per_task").get<int>(), usable));
    }
    check_qos(partition.value("qos", Json::array()), pointer + "/qos");
  }

  void check_qos(const Json& list, const std::string& pointer) {
    int defaults = 0;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::string place = format_text("{}/{}", pointer, i);
      if (list[i].value("default", false) && ++defaults > 1) {
        add(place + "/default", "a second default QoS: Slurm takes one");
      }
      for (const char* unit : {"gpus", "nodes"}) {
        const std::string least = format_text("min_{}", unit);
        const std::string most = format_text("max_{}", unit);
        if (!list[i].contains(least) || !list[i].contains(most)) continue;
        if (list[i].at(least).get<int>() <= list[i].at(most).get<int>()) continue;
        add(format_text("{}/{}", place, least),
            format_text("it is more than {}: no job fits", most));
      }
    }
  }

  const Json& provenance_;
  const Json& document_;
  std::vector<std::string> errors_;
};

}  // namespace

Status check_site(const Json& document, const std::string& origin) {
  return document_status(SiteChecker(document).check(), origin);
}

}  // namespace hvd
