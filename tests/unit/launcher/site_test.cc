// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "launcher/site/site_catalog.h"
#include "launcher/site/site_embedded.h"
#include "launcher/site/site_environment.h"
#include "launcher/site/site_file.h"

namespace hvd {
namespace {

using testing::HasSubstr;

std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

Environment variable(const std::string& name, const std::string& value) {
  Environment environment;
  environment.set(name, value);
  return environment;
}

std::string refusal(const std::string& text) {
  const Result<SiteConfig> site = parse_site(text, "x.json");
  return site.is_ok() ? "accepted" : site.status().message();
}

TEST(SiteFile, EveryEmbeddedSiteIsValid) {
  const auto sites = all_sites(Environment());
  ASSERT_TRUE(sites.is_ok()) << sites.status().message();
  ASSERT_EQ(sites.value().size(), 3U);
  for (const SiteConfig& site : sites.value()) {
    EXPECT_EQ(site.origin, "embedded");
    for (const SiteVariable& item : site.env) EXPECT_FALSE(item.provenance.source.empty());
  }
}

TEST(SiteFile, NamesLineAndColumnOfBadSyntax) {
  const std::string site(embedded_file("generic.json"));
  EXPECT_THAT(refusal(with(site, "\"generic\",", "\"generic\"")),
              HasSubstr("x.json: line 4, column 8: syntax error"));
}

TEST(SiteFile, NamesPointerAndRemedyOfEachWrongField) {
  const std::string site(embedded_file("jean-zay.json"));
  const std::tuple<std::string, std::string, std::string> cases[] = {
      {"\"gres_style\"", "\"gres_stile\"", "at /: unknown field 'gres_stile'; the known ones are"},
      {"\"count\": 4", "\"count\": \"4\"",
       "at /partitions/0/gpus/count: it is \"4\", but must be of type integer"},
      {"\"count\": 4", "\"count\": -1",
       "at /partitions/0/gpus/count: it is -1, but the smallest is 0 and the largest 64"},
      {"\"select\": \"implicit\"", "\"select\": \"magic\"",
       "at /partitions/0/select: it is \"magic\", but must be one of implicit, partition"},
      {"\"name\": \"gpu_p13\",", "", "at /partitions/0: the field 'name' is missing"},
      {"\"id\": \"jean-zay\"", "\"id\": \"Jean Zay\"",
       "at /id: it is \"Jean Zay\", which does not match"},
      {"\"default\": true", "\"default\": 1",
       "at /partitions/0/qos/0/default: it is 1, but must be of type boolean"},
      {"\"constraint\": \"a100\",", "",
       "partition 'gpu_p5' is selected by constraint but has no 'constraint' field"},
  };
  for (const auto& [from, to, message] : cases) {
    EXPECT_THAT(refusal(with(site, from, to)), HasSubstr(message));
  }
  EXPECT_THAT(refusal("[]"), HasSubstr("x.json: at /"));
}

TEST(SiteFile, AVariableCarriesWhenWhySourceAndDate) {
  const std::string site(embedded_file("piz-daint.json"));
  for (const std::string field : {"when", "why", "source", "date"}) {
    const std::size_t env = site.find("\"env\"");
    const std::string tail = with(site.substr(env), "\"" + field + "\"", "\"x_" + field + "\"");
    EXPECT_THAT(refusal(site.substr(0, env) + tail),
                HasSubstr("at /env/0: unknown field 'x_" + field + "'"));
  }
}

TEST(SiteCatalog, FindsByIdAliasAndFile) {
  EXPECT_EQ(find_site("jz", Environment()).value().id, "jean-zay");
  const auto unknown = find_site("nowhere", Environment());
  EXPECT_THAT(unknown.status().message(),
              HasSubstr("no site 'nowhere': the known ones are generic, jean-zay, piz-daint"));
  EXPECT_THAT(find_site("/nowhere/x.json", Environment()).status().message(),
              HasSubstr("'/nowhere/x.json' cannot be read"));
}

TEST(SiteCatalog, AFileOfTheSitePathOverridesTheEmbeddedSite) {
  std::string folder = testing::TempDir() + "/sites.XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  std::ofstream(folder + "/mine.json")
      << with(std::string(embedded_file("jean-zay.json")), "Jean Zay, IDRIS", "Mine");
  const Environment environment = variable("HVD_SITE_PATH", folder);
  const auto site = find_site("jean-zay", environment);
  ASSERT_TRUE(site.is_ok()) << site.status().message();
  EXPECT_EQ(site.value().name, "Mine");
  EXPECT_EQ(site.value().origin, folder + "/mine.json");
  std::filesystem::remove_all(folder);
  EXPECT_THAT(find_site("jean-zay", environment).status().message(), HasSubstr("cannot be listed"));
}

TEST(SiteCatalog, DetectsTheSiteOrTakesTheGenericOne) {
  EXPECT_EQ(detect_site(variable("SLURM_CLUSTER_NAME", "jean-zay"), "r1").value().id, "jean-zay");
  EXPECT_EQ(detect_site(Environment(), "jean-zay3").value().id, "jean-zay");
  EXPECT_EQ(detect_site(Environment(), "laptop").value().id, "generic");
}

TEST(SiteEnvironment, HoldsWhatItsConditionsAllow) {
  const SiteConfig site = find_site("piz-daint", Environment()).value();
  EXPECT_TRUE(site_environment(site, {.nodes = 1, .gpus_per_node = 1}).empty());
  const auto settings = site_environment(site, {.nodes = 2, .gpus_per_node = 1});
  ASSERT_EQ(settings.size(), 2U);  // the two lines of the course are text only
  EXPECT_EQ(settings[0].name, "NCCL_NET");
  EXPECT_EQ(settings[1].name, "NCCL_SOCKET_IFNAME");
  EXPECT_EQ(settings[1].value, "ipogif0");
  EXPECT_EQ(settings[1].origin, "site piz-daint");
  EXPECT_THAT(settings[1].why, HasSubstr("2026-06"));
}

TEST(SiteCatalog, AFolderOrAMissingFileIsOneSentence) {
  for (const std::string path : {"/tmp", "/no/such/site.json", "/dev/null"}) {
    const Result<SiteConfig> site = find_site(path, Environment());
    ASSERT_FALSE(site.is_ok()) << path;
    EXPECT_EQ(site.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(site.status().message(), HasSubstr("site file '" + path + "' cannot be read"));
  }
}

}  // namespace
}  // namespace hvd
