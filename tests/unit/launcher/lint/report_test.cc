// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/report.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "../golden.h"
#include "launcher/lint/rule_table.h"

namespace hvd {
namespace {

using Json = nlohmann::json;

std::vector<LintedFile> example() {
  return {{.path = "a job.sbatch",
           .site = "jean-zay",
           .findings = {{.rule = "too-many-cores",
                         .severity = Severity::kError,
                         .line = 4,
                         .variable = "--cpus-per-task",
                         .why = "4 x 24 cores, a node has 40: 100%",
                         .fix = "write 10",
                         .source = "page, 2026"},
                        {.rule = "no-launch", .severity = Severity::kNote, .why = "no srun"}}},
          {.path = "",
           .site = "",
           .findings = {{.rule = "wrong-case",
                         .severity = Severity::kError,
                         .variable = "NCCL_P2P_LEVEL",
                         .why = "letters count",
                         .fix = "write NVL"}}}};
}

TEST(LintReport, TextSaysWhereWhyFixAndSource) {
  EXPECT_EQ(report_text(example(), false),
            "a job.sbatch:4: error: --cpus-per-task: 4 x 24 cores, a node has 40: 100% "
            "[too-many-cores]\n"
            "    hint: write 10\n"
            "    source: page, 2026\n"
            "a job.sbatch: note: no srun [no-launch]\n"
            "environment: error: NCCL_P2P_LEVEL: letters count [wrong-case]\n"
            "    hint: write NVL\n"
            "2 errors, 0 warnings, 1 note\n");
  EXPECT_EQ(report_text({{.path = "x", .site = "", .findings = {}}}, false), "nothing is wrong\n");
  std::vector<LintedFile> files = example();
  files[1].findings[0].severity = Severity::kWarning;
  const std::string colored = report_text(files, true);
  for (const char* const word : {"\033[1;31merror", "\033[33mwarning", "\033[36mnote"}) {
    EXPECT_NE(colored.find(word), std::string::npos) << word << " in " << colored;
  }
}

TEST(LintReport, GithubEscapesWhatWorkflowCommandsNeed) {
  const std::string text = report_github(example());
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "::error file=a job.sbatch,line=4,title=hvdrun lint too-many-cores::--cpus-per-task: 4 "
            "x 24 cores, a node has 40: 100%25%0Ahint: write 10%0Asource: page, 2026");
  EXPECT_NE(text.find("::notice file=a job.sbatch,title=hvdrun lint no-launch::no srun\n"),
            std::string::npos);
}

TEST(LintReport, JsonHoldsTheSame) {
  const Json json = Json::parse(report_json(example()));
  EXPECT_EQ(json["files"][0]["path"], "a job.sbatch");
  EXPECT_EQ(json["files"][0]["site"], "jean-zay");
  EXPECT_EQ(json["files"][0]["findings"][0]["line"], 4);
  EXPECT_EQ(json["files"][0]["findings"][0]["rule"], "too-many-cores");
  EXPECT_EQ(json["files"][1]["path"], "environment");
  EXPECT_EQ(json["summary"]["errors"], 2);
}

/// The fields that SARIF 2.1.0 requires, and those that code scanning asks for.
TEST(LintReport, SarifHasTheRequiredFields) {
  const Json json = Json::parse(report_sarif(example(), "1.2.3"));
  EXPECT_EQ(json.at("version"), "2.1.0");
  EXPECT_TRUE(json.at("$schema").get<std::string>().ends_with("sarif-schema-2.1.0.json"));
  ASSERT_EQ(json.at("runs").size(), 1U);
  const Json& run = json.at("runs").at(0);
  const Json& driver = run.at("tool").at("driver");
  EXPECT_EQ(driver.at("name"), "hvdrun lint");
  EXPECT_EQ(driver.at("version"), "1.2.3");
  const Json& rules = driver.at("rules");
  EXPECT_EQ(rules.size(), lint_rules().size());
  const std::set<std::string> levels{"none", "note", "warning", "error"};
  for (const Json& rule : rules) {
    EXPECT_FALSE(rule.at("shortDescription").at("text").get<std::string>().empty());
    EXPECT_TRUE(levels.contains(rule.at("defaultConfiguration").at("level").get<std::string>()));
  }
  ASSERT_EQ(run.at("results").size(), 3U);
  for (const Json& result : run.at("results")) {
    EXPECT_TRUE(levels.contains(result.at("level").get<std::string>()));
    EXPECT_FALSE(result.at("message").at("text").get<std::string>().empty());
    EXPECT_EQ(rules.at(result.at("ruleIndex").get<std::size_t>()).at("id"), result.at("ruleId"));
    ASSERT_FALSE(result.at("locations").empty());
  }
  const Json& place = run.at("results").at(0).at("locations").at(0).at("physicalLocation");
  EXPECT_EQ(place.at("artifactLocation").at("uri"), "a%20job.sbatch");
  EXPECT_EQ(place.at("region").at("startLine"), 4);
}

/// docs/reference/lint.md lists the rules as the table has them.
TEST(LintReport, ReferenceIsFresh) {
  const std::string path = HVD_LINT_REFERENCE;
  std::ifstream file(path);
  const std::string page{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::string begin = "<!-- rules -->\n";
  const std::size_t from = page.find(begin);
  const std::size_t to = page.find("<!-- end of rules -->");
  ASSERT_NE(from, std::string::npos);
  ASSERT_NE(to, std::string::npos);
  std::string table = "| rule | severity | what | why | |\n|---|---|---|---|---|\n";
  for (const LintRule& rule : lint_rules()) {
    std::string why(rule.why);
    for (std::size_t at = 0; (at = why.find('|', at)) != std::string::npos; at += 2) {
      why.insert(at, 1, '\\');
    }
    table += "| `" + std::string(rule.id) + "` | " + std::string(severity_name(rule.severity)) +
             " | " + std::string(rule.title) + " | " + why + " | " +
             (rule.is_mended ? "mended" : "") + " |\n";
  }
  expect_golden(path, page.substr(0, from + begin.size()) + table + page.substr(to));
}

TEST(LintReport, RuleIdsAreUnique) {
  std::set<std::string_view> ids;
  for (const LintRule& rule : lint_rules()) EXPECT_TRUE(ids.insert(rule.id).second) << rule.id;
}

}  // namespace
}  // namespace hvd
