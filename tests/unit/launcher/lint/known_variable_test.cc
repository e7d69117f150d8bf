// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/known_variable.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <regex>

#include "../golden.h"
#include "base/settings.h"
#include "base/settings_text.h"
#include "launcher/lint/nearest_word.h"
#include "launcher/lint/version.h"
#include "topology/launch_table.h"

namespace hvd {
namespace {

TEST(KnownVariable, TableIsSortedAndEachNameHasAFamilyAndASource) {
  const auto all = known_variables();
  EXPECT_GT(all.size(), 1500U);
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end(),
                             [](const auto& a, const auto& b) { return a.name < b.name; }));
  for (const KnownVariable& known : all) {
    EXPECT_NE(family_of(known.name), nullptr) << known.name;
    EXPECT_FALSE(known.source.empty()) << known.name;
    EXPECT_FALSE(known.date.empty()) << known.name;
    const bool takes_words = known.kind == ValueKind::kOneOf || known.kind == ValueKind::kLevel ||
                             known.kind == ValueKind::kList;
    EXPECT_EQ(takes_words, !known.values.empty()) << known.name;
  }
}

TEST(KnownVariable, WhatHvdrunWritesIsKnown) {
  for (const LaunchVariables& row : launch_variables()) {
    for (const std::string_view name : row.names) {
      if (name.empty()) continue;
      const KnownVariable* const known = find_variable(name);
      ASSERT_NE(known, nullptr) << name;
      EXPECT_EQ(known->note, "set by hvdrun, not by hand") << name;
      EXPECT_EQ(known->kind, ValueKind::kAny) << name;
      EXPECT_EQ(find_setting(name), nullptr) << name << " is in one table";
    }
  }
}

/// `page` with `table` in place of the one that begins with `head`.
std::string with_table(std::string page, std::string_view head, const std::string& table) {
  const std::size_t begin = page.find(head);
  EXPECT_NE(begin, std::string::npos) << head;
  if (begin == std::string::npos) return page;
  const std::size_t end = page.find("\n\n", begin);
  return page.replace(begin, end + 1 - begin, table);
}

/// Its tables are made from ours: run with --update to rewrite them.
TEST(KnownVariable, ThePageHasTheSettingsAndWhatHvdrunWrites) {
  std::ifstream file(HVD_ENVIRONMENT_REFERENCE);
  std::string page{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  page = with_table(std::move(page), "| variable | takes | default |", settings_table());
  page = with_table(std::move(page), "| variable | meaning |", launch_table());
  expect_golden(HVD_ENVIRONMENT_REFERENCE, page);
}

/// So is the module of Python.
TEST(KnownVariable, PythonHasTheSettings) { expect_golden(HVD_SETTING_ROWS, settings_module()); }

TEST(KnownVariable, SettingsAreJudgedByTheirTable) {
  const KnownVariable* const link = find_variable("HVD_LINK_TIMEOUT_SECONDS");
  ASSERT_NE(link, nullptr);
  EXPECT_EQ(link->kind, ValueKind::kInteger);
  EXPECT_EQ(link->lowest, 1);
  EXPECT_EQ(link->highest, 3600);
  EXPECT_TRUE(link->fails_start);
  for (const Setting& setting : settings()) {
    if (!setting.name.starts_with("HVD_")) continue;
    EXPECT_NE(find_variable(setting.name), nullptr) << setting.name;
    if (setting.also.empty()) continue;
    EXPECT_NE(find_variable(setting.also), nullptr) << setting.also;
  }
}

/// What users read about is not a slip.
TEST(KnownVariable, WhatTheReferenceDescribesIsKnown) {
  std::ifstream file(HVD_ENVIRONMENT_REFERENCE);
  const std::string page{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::regex pattern("`((HVD|HOROVOD)_[A-Z_]*[A-Z])`");
  int count = 0;
  for (std::sregex_iterator name(page.begin(), page.end(), pattern), end; name != end; ++name) {
    EXPECT_NE(find_variable((*name)[1].str()), nullptr) << (*name)[1].str() << " is in no table";
    ++count;
  }
  EXPECT_GT(count, 15);
}

/// Its rows list the words in backticks, between brackets.
TEST(KnownVariable, TheBackendsAreThoseOfTheReference) {
  std::ifstream file(HVD_ENVIRONMENT_REFERENCE);
  std::string line;
  while (std::getline(file, line) && !line.starts_with("| `HVD_BACKEND`")) {
  }
  const std::string words = line.substr(line.find('('), line.find(')') - line.find('('));
  const std::regex pattern("`([a-z]+)`");
  std::string values;
  for (std::sregex_iterator word(words.begin(), words.end(), pattern), end; word != end; ++word) {
    values += (values.empty() ? "" : " ") + (*word)[1].str();
  }
  EXPECT_EQ(find_variable("HVD_BACKEND")->values, values);
}

TEST(KnownVariable, FindsByNameAndByBeginning) {
  EXPECT_NE(find_variable("NCCL_DEBUG"), nullptr);
  EXPECT_EQ(find_variable("NCCL_DEBU"), nullptr);
  EXPECT_NE(find_variable("OMPI_MCA_btl_tcp_if_include"), nullptr);
  EXPECT_EQ(find_variable("OMPI_MCA_blt_tcp_if_include"), nullptr);
  EXPECT_EQ(find_variable("PATH"), nullptr);
}

TEST(KnownVariable, GuessesWhatASlipMeant) {
  const std::pair<const char*, const char*> cases[] = {
      {"NCCL_SOCKET_IFNAM", "NCCL_SOCKET_IFNAME"},
      {"NCCL_SOKCET_IFNAME", "NCCL_SOCKET_IFNAME"},
      {"NCCL_IB_HCAS", "NCCL_IB_HCA"},
      {"NCCL_DEGUB", "NCCL_DEBUG"},
      {"NCCL_NET_GDR_LEVELS", "NCCL_NET_GDR_LEVEL"},
      {"FI_CXI_RX_MATCH_MOD", "FI_CXI_RX_MATCH_MODE"},
      {"UCX_NET_DEVICE", "UCX_NET_DEVICES"},
      {"PSM2_MULTI_RAIL", "PSM2_MULTIRAIL"},
      {"HVD_BACKENDS", "HVD_BACKEND"},
      {"MPICH_GPU_SUPORT_ENABLED", "MPICH_GPU_SUPPORT_ENABLED"},
      {"NCCL_SOMETHING_ELSE", ""},
      {"MY_OWN_VARIABLE", ""},
  };
  for (const auto& [typed, meant] : cases) EXPECT_EQ(nearest_variable(typed), meant) << typed;
}

TEST(NearestWord, TakesTheNearestWithinTheSlips) {
  const std::string_view words[] = {"PHB", "PXB", "SYS"};
  EXPECT_EQ(nearest_word("PBH", words, 1), "PHB");
  EXPECT_EQ(nearest_word("PHB", words, 1), "PHB");
  EXPECT_EQ(nearest_word("NODE", words, 1), "");
}

TEST(Version, ComparesNumberByNumber) {
  EXPECT_LT(*compare_versions("2.4", "2.30.7"), 0);
  EXPECT_EQ(*compare_versions("2.4", "2.4.0"), 0);
  EXPECT_GT(*compare_versions("23.11.4", "23.11"), 0);
  EXPECT_FALSE(compare_versions("newer libfabric", "2.4"));
  EXPECT_FALSE(compare_versions("", "2.4"));
}

}  // namespace
}  // namespace hvd
