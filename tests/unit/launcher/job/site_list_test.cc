// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/site_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "launcher/options/command_line.h"

namespace hvd {
namespace {

using testing::HasSubstr;
using testing::Not;

const nlohmann::json* named(const nlohmann::json& list, const char* key, const std::string& name) {
  for (const nlohmann::json& item : list) {
    if (item.at(key) == name) return &item;
  }
  return nullptr;
}

TEST(SiteList, TellsProgramsWhatItTellsPeople) {
  const Result<std::string> text = describe_sites(Environment(), "", false);
  ASSERT_TRUE(text.is_ok()) << text.status().message();
  const nlohmann::json json =
      nlohmann::json::parse(describe_sites(Environment(), "", true).value());
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

TEST(SiteList, IsOfOneSiteWhereOneIsNamed) {
  const std::string text = describe_sites(Environment(), "jean-zay", false).value();
  EXPECT_TRUE(text.starts_with("jean-zay ")) << text;
  EXPECT_THAT(text, Not(HasSubstr("lumi")));
  const auto json = nlohmann::json::parse(describe_sites(Environment(), "jean-zay", true).value());
  EXPECT_EQ(json.at("sites").size(), 1U);
  EXPECT_THAT(describe_sites(Environment(), "jeanzay7", false).status().message(),
              HasSubstr("jeanzay7"));
}

TEST(SiteList, ShowsTimesAndQosInColumns) {
  const std::string text = describe_sites(Environment(), "jean-zay", false).value();
  EXPECT_THAT(text, HasSubstr("QoS qos_gpu-t3 (20:00:00"));
  EXPECT_THAT(text, Not(HasSubstr("0  per node")));
  std::size_t column = 0;
  for (std::size_t begin = text.find('\n') + 1; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line[2] == ' ') continue;  // the limits of the partition before
    const std::size_t gap = line.find("  ", 3);
    const std::size_t space = line.find(' ', 3);
    const std::size_t here =
        gap == space && gap != std::string::npos ? line.find_first_not_of(' ', gap) : space + 1;
    if (column == 0) column = here;
    EXPECT_EQ(here, column) << text;
  }
  EXPECT_GT(column, 0U);
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
