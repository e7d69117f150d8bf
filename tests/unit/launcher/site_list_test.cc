// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/site_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "launcher/options/command_line.h"

namespace hvd {
namespace {

using testing::HasSubstr;

const nlohmann::json* named(const nlohmann::json& list, const char* key, const std::string& name) {
  for (const nlohmann::json& item : list) {
    if (item.at(key) == name) return &item;
  }
  return nullptr;
}

TEST(SiteList, TellsProgramsWhatItTellsPeople) {
  const Result<std::string> text = describe_sites(Environment(), false);
  ASSERT_TRUE(text.is_ok()) << text.status().message();
  const nlohmann::json json = nlohmann::json::parse(describe_sites(Environment(), true).value());
  for (const nlohmann::json& site : json.at("sites")) {
    EXPECT_THAT(text.value(), HasSubstr(site.at("name").get<std::string>()));
  }
  const nlohmann::json* retired = named(json.at("sites"), "id", "piz-daint");
  ASSERT_NE(retired, nullptr);
  EXPECT_TRUE(retired->at("retired").is_string());
  const nlohmann::json* site = named(json.at("sites"), "id", "jean-zay");
  ASSERT_NE(site, nullptr);
  EXPECT_TRUE(site->at("retired").is_null());
  const nlohmann::json* partition = named(site->at("partitions"), "name", "gpu_p5");
  ASSERT_NE(partition, nullptr);
  EXPECT_EQ(partition->at("gpus_per_node"), 8);
  EXPECT_FALSE(partition->at("source").get<std::string>().empty());
}

TEST(SiteList, IsJsonWhereTheListIsAskedForOnly) {
  for (const char* command : {"header", "script", "submit"}) {
    const Result<CommandLine> both = parse_command_line({command, "--list", "--json"});
    ASSERT_TRUE(both.is_ok()) << both.status().message();
    EXPECT_TRUE(std::get<JobOptions>(both.value()).json);
    EXPECT_THAT(parse_command_line({command, "--json"}).status().message(),
                HasSubstr("--json requires --list"));
  }
}

}  // namespace
}  // namespace hvd
