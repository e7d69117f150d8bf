// SPDX-License-Identifier: Apache-2.0
// Where site files lie, what they may leave out, and what becomes of wrong ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "launcher/env/sites_report.h"
#include "launcher/site/config_folder.h"
#include "launcher/site/site_catalog.h"
#include "launcher/site/site_embedded.h"
#include "launcher/site/site_file.h"
#include "launcher/site/site_schema.h"

namespace hvd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Variables = std::map<std::string, std::string, std::less<>>;

/// A folder with the user's files (home/hvdrun) and the system's (etc/hvdrun).
class ConfigTree {
 public:
  ConfigTree() { EXPECT_NE(mkdtemp(path_.data()), nullptr); }
  ~ConfigTree() { std::filesystem::remove_all(path_); }
  ConfigTree(const ConfigTree&) = delete;
  ConfigTree& operator=(const ConfigTree&) = delete;

  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = path_ + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  Environment environment() const {
    return Environment(
        Variables{{"XDG_CONFIG_HOME", path_ + "/home"}, {"XDG_CONFIG_DIRS", path_ + "/etc"}});
  }

 private:
  std::string path_ = testing::TempDir() + "/config.XXXXXX";
};

/// A small site file; its parts name no source of their own.
std::string small_site(const std::string& name, const std::string& more = "") {
  return R"({"id": "lab", "name": ")" + name + R"(",
    "provenance": {"wiki": {"source": "lab wiki", "date": "2026-10", "mark": "seen"}},
    "source": "wiki", "gres_style": "gres",
    "detect": {"cluster_names": ["lab"]},
    "partitions": [{"name": "gpu", "select": "partition", "gpus": {"count": 4},
                    "cores_per_task": 8, "qos": [{"name": "long", "max_time": "48:00:00"}]}],
    "container": {"runtime": "apptainer"},
    "env": [{"name": "A", "value": "1", "when": "always", "why": "w"}])" +
         more + "}";
}

TEST(ConfigFolders, AreTheUsersThenTheSystems) {
  EXPECT_THAT(config_folders(Environment(Variables{{"HOME", "/h"}})),
              ElementsAre("/h/.config/hvdrun", "/etc/xdg/hvdrun", "/etc/hvdrun"));
  EXPECT_THAT(config_folders(Environment(Variables{
                  {"HOME", "/h"}, {"XDG_CONFIG_HOME", "/c"}, {"XDG_CONFIG_DIRS", "/a:b:/d:/a"}})),
              ElementsAre("/c/hvdrun", "/a/hvdrun", "/d/hvdrun", "/etc/hvdrun"));
  EXPECT_THAT(config_folders(Environment()), ElementsAre("/etc/xdg/hvdrun", "/etc/hvdrun"));
}

TEST(SiteFiles, OfTheUserComeBeforeThoseOfTheSystem) {
  const ConfigTree tree;
  tree.write("etc/hvdrun/sites/lab.json", small_site("System"));
  EXPECT_EQ(find_site("lab", tree.environment()).value().name, "System");
  EXPECT_EQ(detect_site(Environment(Variables{{"SLURM_CLUSTER_NAME", "lab"}}), "n1").value().id,
            "generic");
  tree.write("home/hvdrun/sites/lab.json", small_site("User"));
  EXPECT_EQ(find_site("lab", tree.environment()).value().name, "User");
  tree.write("path/lab.json", small_site("Path"));
  Environment with_path = tree.environment();
  with_path.set("HVD_SITE_PATH", tree.environment().get("XDG_CONFIG_HOME").value() + "/../path");
  EXPECT_EQ(find_site("lab", with_path).value().name, "Path");
}

TEST(SiteFiles, MayNameAVariableThatTheirMachineSets) {
  const ConfigTree tree;
  std::string text = small_site("Lab");
  const std::string by_cluster = R"("cluster_names": ["lab"])";
  text.replace(text.find(by_cluster), by_cluster.size(), R"("variables": {"LAB_HOST": "one"})");
  tree.write("home/hvdrun/sites/lab.json", text);
  Environment environment = tree.environment();
  EXPECT_EQ(detect_site(environment, "n1").value().id, "generic");
  environment.set("LAB_HOST", "one");
  const Result<SiteConfig> found = detect_site(environment, "n1");
  ASSERT_TRUE(found.is_ok()) << found.status().message();
  EXPECT_EQ(found.value().id, "lab");
  EXPECT_EQ(found.value().found_by, "LAB_HOST=one");
}

TEST(SiteFiles, PartsHaveTheSourceOfTheSite) {
  const Result<SiteConfig> read = parse_site(small_site("Lab"), "lab.json");
  ASSERT_TRUE(read.is_ok()) << read.status().message();
  const SiteConfig& site = read.value();
  EXPECT_EQ(site.partitions.at(0).provenance.source, "lab wiki");
  EXPECT_EQ(site.partitions.at(0).qos.at(0).provenance.source, "lab wiki");
  EXPECT_EQ(site.env.at(0).provenance.date, "2026-10");
  EXPECT_EQ(provenance_of(site, "container/runtime").mark, "seen");
}

TEST(SiteFiles, ThatExtendGiveTheirSourceToWhatTheyAdd) {
  const ConfigTree tree;
  tree.write("home/hvdrun/sites/lumi.json", R"({"id": "lumi", "extends": "lumi",
    "provenance": {"me": {"source": "tried it", "date": "2026-10", "mark": "seen"}}, "source": "me",
    "partitions": [{"name": "small-g", "max_nodes": 2}],
    "env": [{"name": "MINE", "value": "1", "when": "always", "why": "w"}]})");
  const Result<SiteConfig> read = find_site("lumi", tree.environment());
  ASSERT_TRUE(read.is_ok()) << read.status().message();
  for (const SiteVariable& variable : read.value().env) {
    EXPECT_EQ(variable.provenance.source == "tried it", variable.name == "MINE") << variable.name;
  }
  for (const SitePartition& partition : read.value().partitions) {
    EXPECT_EQ(provenance_of(partition, "max_nodes").source == "tried it",
              partition.name == "small-g");
    EXPECT_THAT(provenance_of(partition, "max_time").source, HasSubstr("lumi-supercomputer.eu"));
  }
}

TEST(SiteFiles, AreToldAllTheirErrorsAtOnce) {
  std::string text = small_site("Lab", R"(, "shel": "/bin/sh", "time": "soon")");
  text.replace(text.find("\"count\": 4"), 10, "\"count\": -4");
  text.replace(text.find("\"select\": \"partition\","), 22, "");
  const std::string schema = parse_site(text, "lab.json").status().message();
  EXPECT_THAT(schema, HasSubstr("lab.json: 4 errors:\n  at /"));
  EXPECT_THAT(schema, HasSubstr("\n  at /: unknown field 'shel'; the known ones are"));
  EXPECT_THAT(schema, HasSubstr("\n  at /time: it is \"soon\", which does not match"));
  EXPECT_THAT(schema, HasSubstr("\n  at /partitions/0/gpus/count: it is -4"));
  EXPECT_THAT(schema, HasSubstr("\n  at /partitions/0: the field 'select' is missing"));
  EXPECT_THAT(schema, Not(HasSubstr("docs/")));

  text = small_site("Lab", R"(, "account": {"pattern": "(", "example": "x"})");
  text.replace(text.find("\"always\""), 8, "\"often\"");
  text.replace(text.find("\"cores_per_task\": 8"), 19,
               "\"cores_per_task\": 8, \"cores_per_node\": 16");
  const std::string checks = parse_site(text, "lab.json").status().message();
  EXPECT_THAT(checks, HasSubstr("lab.json: 3 errors:"));
  EXPECT_THAT(checks, HasSubstr("\n  at /account/pattern: "));
  EXPECT_THAT(checks, HasSubstr("\n  at /env/0/when: 'often' is not a condition"));
  EXPECT_THAT(checks, HasSubstr("\n  at /partitions/0/cores_per_task: 4 tasks of 8 cores"));
}

TEST(SiteFiles, ThatAreWrongStopNobodyWhoDidNotNameThem) {
  const ConfigTree tree;
  tree.write("home/hvdrun/sites/lab.json", small_site("Wrong", R"(, "time": "soon")"));
  tree.write("etc/hvdrun/sites/lab.json", small_site("System"));
  Environment environment = tree.environment();
  environment.set("SLURM_CLUSTER_NAME", "lab");
  const Result<SiteConfig> found = detect_site(environment, "n1");
  ASSERT_TRUE(found.is_ok()) << found.status().message();
  EXPECT_EQ(found.value().name, "System");
  ASSERT_EQ(found.value().warnings.size(), 1U);
  EXPECT_THAT(found.value().warnings[0], HasSubstr("home/hvdrun/sites/lab.json: at /time: "));
  EXPECT_THAT(find_site("lab", environment).status().message(), HasSubstr("at /time: "));

  tree.write("etc/hvdrun/sites/lab.json", small_site("Wrong too", R"(, "time": "later")"));
  const Result<SiteConfig> none = detect_site(environment, "n1");
  ASSERT_TRUE(none.is_ok()) << none.status().message();
  EXPECT_EQ(none.value().id, "generic");
  EXPECT_EQ(none.value().warnings.size(), 2U);
}

/// `hvdrun sites NAME --json > NAME.json` is a file that gives the same site.
TEST(SiteFiles, AreWhatSitesPrintsAsJson) {
  const std::vector<SiteEntry> entries = site_index(Environment()).value();
  for (const SiteEntry& entry : entries) {
    const Json document = load_document(entries, entry).value();
    const std::string text = site_json(document);
    const Result<SiteConfig> read = parse_site(text, entry.id + ".json");
    ASSERT_TRUE(read.is_ok()) << read.status().message();
    EXPECT_EQ(site_json(parse_json(text, "again").value()), text);
    EXPECT_EQ(read.value().name, entry.name);
    EXPECT_EQ(read.value().partitions.size(), site_of(document, "embedded").partitions.size());
    EXPECT_EQ(site_values(parse_json(text, "again").value()).size(), site_values(document).size());
  }
}

/// The page that errors name lies in hvdrun itself.
TEST(SiteFiles, AreDescribedByAPageInHvdrun) {
  EXPECT_THAT(std::string(embedded_file("site-schema.md")), HasSubstr("| **`id`** |"));
}

}  // namespace
}  // namespace hvd
