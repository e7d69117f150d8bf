// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <nlohmann/json.hpp>

#include "launcher/lint/report.h"
#include "launcher/lint/rule_table.h"

namespace hvd {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::string_view kSarifSchema =
    "https://raw.githubusercontent.com/oasis-tcs/sarif-spec/main/sarif-2.1/schema/"
    "sarif-schema-2.1.0.json";
constexpr std::string_view kEnvironment = "environment";

/// Bytes that are not UTF-8 are replaced: a script may hold anything.
std::string dumped(const OrderedJson& json) {
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

OrderedJson finding_json(const Finding& finding) {
  OrderedJson json{{"rule", finding.rule}, {"severity", severity_name(finding.severity)}};
  if (finding.line > 0) json["line"] = finding.line;
  if (!finding.variable.empty()) json["name"] = finding.variable;
  json["why"] = finding.why;
  if (!finding.fix.empty()) json["fix"] = finding.fix;
  if (!finding.source.empty()) json["source"] = finding.source;
  json["mechanical"] = finding.edit.has_value();
  return json;
}

std::string uri_of(const std::string& path) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string uri;
  for (const unsigned char byte : path) {
    if (kPlain.find(static_cast<char>(byte)) != std::string_view::npos) {
      uri += static_cast<char>(byte);
    } else {
      uri += {'%', kHex[byte >> 4U], kHex[byte & 15U]};
    }
  }
  return path.starts_with('/') ? "file://" + uri : uri;
}

OrderedJson rules_json() {
  OrderedJson rules = OrderedJson::array();
  for (const LintRule& rule : lint_rules()) {
    rules.push_back({{"id", rule.id},
                     {"shortDescription", {{"text", rule.title}}},
                     {"fullDescription", {{"text", rule.why}}},
                     {"defaultConfiguration", {{"level", severity_name(rule.severity)}}}});
  }
  return rules;
}

std::string message_of(const Finding& finding) {
  std::string text = finding.variable.empty() ? "" : finding.variable + ": ";
  text += finding.why;
  if (!finding.fix.empty()) text += "; hint: " + finding.fix;
  if (!finding.source.empty()) text += " (" + finding.source + ")";
  return text;
}

OrderedJson result_json(const std::string& path, const Finding& finding, std::size_t rule) {
  OrderedJson result{{"ruleId", finding.rule},
                     {"ruleIndex", rule},
                     {"level", severity_name(finding.severity)},
                     {"message", {{"text", message_of(finding)}}}};
  OrderedJson location;
  if (path.empty()) {
    location["logicalLocations"] =
        OrderedJson::array({OrderedJson{{"name", finding.variable}, {"kind", "variable"}}});
  } else {
    location["physicalLocation"]["artifactLocation"]["uri"] = uri_of(path);
    // Code scanning wants a line; what is wrong with the whole file is shown at its first.
    location["physicalLocation"]["region"]["startLine"] = std::max(1, finding.line);
  }
  result["locations"] = OrderedJson::array({location});
  return result;
}

}  // namespace

std::string report_json(const std::vector<LintedFile>& files) {
  OrderedJson list = OrderedJson::array();
  std::map<Severity, int> counts;
  for (const LintedFile& file : files) {
    OrderedJson findings = OrderedJson::array();
    for (const Finding& finding : file.findings) {
      findings.push_back(finding_json(finding));
      ++counts[finding.severity];
    }
    OrderedJson entry{{"path", file.path.empty() ? kEnvironment : file.path}};
    if (!file.site.empty()) entry["site"] = file.site;
    entry["findings"] = std::move(findings);
    if (!file.mended.empty()) entry["mended"] = file.mended;
    list.push_back(std::move(entry));
  }
  return dumped({{"files", std::move(list)},
                 {"summary",
                  {{"errors", counts[Severity::kError]},
                   {"warnings", counts[Severity::kWarning]},
                   {"notes", counts[Severity::kNote]}}}});
}

std::string report_sarif(const std::vector<LintedFile>& files, std::string_view version) {
  std::map<std::string_view, std::size_t> rules;
  for (const LintRule& rule : lint_rules()) rules.emplace(rule.id, rules.size());
  OrderedJson results = OrderedJson::array();
  for (const LintedFile& file : files) {
    for (const Finding& finding : file.findings) {
      results.push_back(result_json(file.path, finding, rules.at(finding.rule)));
    }
  }
  OrderedJson driver{{"name", "hvdrun lint"}, {"version", version}, {"rules", rules_json()}};
  OrderedJson run{{"tool", {{"driver", std::move(driver)}}}, {"results", std::move(results)}};
  return dumped({{"$schema", kSarifSchema},
                 {"version", "2.1.0"},
                 {"runs", OrderedJson::array({std::move(run)})}});
}

}  // namespace hvd
