// SPDX-License-Identifier: Apache-2.0
#include "launcher/check/check_report.h"

#include <nlohmann/json.hpp>

namespace hvd {
namespace {

using OrderedJson = nlohmann::ordered_json;

Result<CheckedGroup> group_of(const OrderedJson& info, const char* name) {
  if (!info.contains(name) || !info.at(name).is_array()) {
    return error(Code::kInternal, "hvd_build_info() has no list '{}': hvdrun and libhvd differ",
                 name);
  }
  CheckedGroup group{name, {}};
  for (const OrderedJson& part : info.at(name)) {
    if (!part.is_object() || !part.contains("name")) continue;
    group.parts.push_back(
        {part.value("name", ""), part.value("available", false), part.value("reason", "")});
  }
  return group;
}

}  // namespace

CheckedPart describe_peer_access(const PeerAccess& access) {
  const std::string name = "GPU peer access";
  if (access.missing.empty()) {
    return {name, true,
            format_text("the {} GPUs of this machine reach each other's memory", access.gpus)};
  }
  const PeerAccess::Pair& first = access.missing.front();
  const std::size_t more = access.missing.size() - 1;
  return {
      name, false,
      format_text("GPUs {} and {}{} do not reach each other's memory ({}): NCCL copies between "
                  "them through host memory",
                  first.one, first.other,
                  more == 0 ? "" : format_text(" (and {} more pair{})", more, more == 1 ? "" : "s"),
                  first.reason)};
}

Result<std::vector<CheckedGroup>> parse_build_info(std::string_view text) {
  const OrderedJson info = OrderedJson::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!info.is_object()) {
    return error(Code::kInternal,
                 "hvd_build_info() is not a JSON object: hvdrun and libhvd differ");
  }
  std::vector<CheckedGroup> groups;
  for (const char* name : {"backends", "bootstraps", "libraries"}) {
    HVD_TRY_ASSIGN(CheckedGroup group, group_of(info, name));
    groups.push_back(std::move(group));
  }
  return groups;
}

std::string report_text(const CheckReport& report) {
  std::string text = format_text("hvdrun {} (revision {})\n", report.version, report.revision);
  for (const CheckedGroup& group : report.groups) {
    text += format_text("\n{}\n", group.name);
    for (const CheckedPart& part : group.parts) {
      text += format_text("  [{}] {:<13} {}\n", part.available ? 'x' : ' ', part.name, part.reason);
    }
  }
  return text;
}

std::string report_json(const CheckReport& report) {
  OrderedJson json;
  json["version"] = report.version;
  json["revision"] = report.revision;
  for (const CheckedGroup& group : report.groups) {
    OrderedJson parts = OrderedJson::array();
    for (const CheckedPart& part : group.parts) {
      parts.push_back(
          {{"name", part.name}, {"available", part.available}, {"reason", part.reason}});
    }
    json[group.name] = std::move(parts);
  }
  // A path may hold any bytes: what is not UTF-8 is replaced.
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace hvd
