// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <nlohmann/json.hpp>

#include "launcher/site/condition.h"
#include "launcher/site/pattern.h"
#include "launcher/site/site_file.h"

namespace hvd {
namespace {

/// The names of an object's fields, for messages.
std::string names_of(const Json& object) {
  std::string names;
  for (const auto& [name, value] : object.items()) names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? "none" : names;
}

/// Walks a document and refuses what the schema cannot.
class SiteChecker {
 public:
  SiteChecker(const Json& document, const std::string& origin)
      : provenance_(document.at("provenance")), document_(document), origin_(origin) {}

  Status check() const {
    HVD_TRY(check_sources(document_, ""));
    HVD_TRY(check_patterns());
    HVD_TRY(check_conditions());
    for (std::size_t i = 0; i < document_.at("partitions").size(); ++i) {
      HVD_TRY(check_partition(document_.at("partitions").at(i), format_text("/partitions/{}", i)));
    }
    return Status::ok();
  }

 private:
  Status wrong(const std::string& pointer, const std::string& what) const {
    return error(Code::kInvalidArgument, "{}: at {}: {}", origin_, pointer, what);
  }

  Status check_key(const std::string& key, const std::string& pointer) const {
    if (provenance_.contains(key)) return Status::ok();
    return wrong(pointer, format_text("'{}' is no key of 'provenance', which has {}", key,
                                      names_of(provenance_)));
  }

  /// Each source is known, and each field with a source of its own is there.
  Status check_sources(const Json& node, const std::string& pointer) const {
    if (node.is_array()) {
      for (std::size_t i = 0; i < node.size(); ++i) {
        HVD_TRY(check_sources(node[i], format_text("{}/{}", pointer, i)));
      }
    }
    if (!node.is_object()) return Status::ok();
    for (const auto& [field, value] : node.items()) {
      const std::string place = format_text("{}/{}", pointer, field);
      if (field == "source") {
        HVD_TRY(check_key(value.get<std::string>(), place));
      } else if (field == "sources") {
        for (const auto& [name, key] : value.items()) {
          const std::string own = format_text("{}/{}", place, name);
          HVD_TRY(check_key(key.get<std::string>(), own));
          if (node.contains(name)) continue;
          return wrong(own, format_text("there is no field '{}' beside it; there are {}", name,
                                        names_of(node)));
        }
      } else if (field != "provenance") {
        HVD_TRY(check_sources(value, place));
      }
    }
    return Status::ok();
  }

  Status check_patterns() const {
    for (const char* pointer : {"/detect/hostname", "/account/pattern"}) {
      const Json::json_pointer place(pointer);
      if (!document_.contains(place)) continue;
      const auto matches = pattern_matches(document_.at(place).get<std::string>(), "");
      if (!matches.is_ok()) return wrong(pointer, matches.status().message());
    }
    return Status::ok();
  }

  Status check_conditions() const {
    for (std::size_t i = 0; i < document_.at("env").size(); ++i) {
      const auto condition =
          parse_condition(document_.at("env").at(i).at("when").get<std::string>());
      if (condition.is_ok()) continue;
      return wrong(format_text("/env/{}/when", i), condition.status().message());
    }
    return Status::ok();
  }

  Status check_partition(const Json& partition, const std::string& pointer) const {
    const std::string name = partition.at("name").get<std::string>();
    if (partition.at("select") == "constraint" && !partition.contains("constraint")) {
      return wrong(pointer,
                   format_text("partition '{}' is selected by constraint but has no 'constraint' "
                               "field",
                               name));
    }
    const int gpus = partition.at("gpus").at("count").get<int>();
    const std::size_t mapped = partition.value("cpu_map", Json::array()).size();
    if (mapped != 0 && mapped != static_cast<std::size_t>(gpus)) {
      return wrong(pointer + "/cpu_map", format_text("it has {} entries, but a node has {} GPUs: "
                                                     "one for each",
                                                     mapped, gpus));
    }
    const int cores = std::max(gpus, 1) * partition.at("cores_per_task").get<int>();
    if (const int usable = partition.value("cores_per_node", cores); cores > usable) {
      return wrong(
          pointer + "/cores_per_task",
          format_text("{} tasks of {} cores are more than the {} of cores_per_node",
                      std::max(gpus, 1), partition.at("cores_per_task").get<int>(), usable));
    }
    return check_qos(partition.value("qos", Json::array()), pointer + "/qos");
  }

  Status check_qos(const Json& list, const std::string& pointer) const {
    int defaults = 0;
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (!list[i].value("default", false) || ++defaults == 1) continue;
      return wrong(format_text("{}/{}/default", pointer, i),
                   "a second default QoS: Slurm takes one");
    }
    return Status::ok();
  }

  const Json& provenance_;
  const Json& document_;
  const std::string& origin_;
};

}  // namespace

Status check_site(const Json& document, const std::string& origin) {
  return SiteChecker(document, origin).check();
}

}  // namespace hvd
