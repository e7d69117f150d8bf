// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "launcher/site/near_sites.h"
#include "launcher/site/secret.h"
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
  const std::vector<SiteEntry> entries = site_index(Environment()).value();
  ASSERT_GE(entries.size(), 22U);
  for (const SiteEntry& entry : entries) {
    // As a user's file it is checked; embedded it is not, since this test does it.
    SiteEntry file = entry;
    file.text = embedded_file(entry.embedded_file);
    file.embedded_file.clear();
    file.origin = entry.embedded_file;
    const auto document = load_document(entries, file);
    EXPECT_TRUE(document.is_ok()) << document.status().message();
    EXPECT_EQ(entry.id + ".json", entry.embedded_file);
  }
}

TEST(SiteFile, NoTwoEmbeddedSitesClaimOneMachine) {
  std::set<std::string> claims;
  for (const EmbeddedDetect& row : embedded_detects()) {
    const std::string claim = format_text("{} {}={}", row.field, row.variable, row.value);
    EXPECT_TRUE(claims.insert(claim).second) << row.site << " and another: " << claim;
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
      {"\"gres_style\": \"gres\"", "\"gres_stile\": \"gres\"",
       "at /: unknown field 'gres_stile'; the known ones are"},
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
      {"\"source\": \"idris\",\n  \"sources\"", "\"sources\"",
       "at /: the field 'source' is missing: each value says where it was read"},
      {"\"mark\": \"documented\"", "\"mark\": \"D\"",
       "/mark: it is \"D\", but must be one of documented, seen, assumed"},
      {"\"source\": \"scripts\"", "\"source\": \"hearsay\"",
       "at /detect/source: 'hearsay' is not a key of 'provenance', which has bloom, guess, "
       "horovod, "
       "hvdrun, idris, live, scripts"},
      {"\"shell\": \"scripts\"", "\"shelf\": \"scripts\"",
       "at /sources/shelf: there is no field 'shelf' beside it; there are $schema, account"},
      {"\"hostname\": \"^jean", "\"hostname\": \"(^jean", "at /detect/hostname: the regular"},
      {"\"constraint\": \"a100\",", "",
       "partition 'gpu_p5' is selected by constraint but has no 'constraint' field"},
  };
  for (const auto& [from, to, message] : cases) {
    EXPECT_THAT(refusal(with(site, from, to)), HasSubstr(message));
  }
  EXPECT_THAT(refusal("[]"), HasSubstr("x.json: at /"));
  EXPECT_THAT(refusal(std::string(100000, '[')), HasSubstr("x.json: line 1, column 100001"));
  EXPECT_THAT(refusal(std::string(50000, '[') + std::string(50000, ']')),
              HasSubstr("x.json: objects and lists lie more than 32 deep"));
  EXPECT_THAT(refusal(with(site, "Jean Zay, IDRIS", std::string(500000, 'x'))),
              HasSubstr("x.json: at /name: the text is too long"));
}

TEST(SiteFile, AVariableCarriesWhenWhyAndSource) {
  const std::string site(embedded_file("piz-daint.json"));
  const std::size_t env = site.find("\"env\"");
  for (const std::string field : {"when", "why", "source"}) {
    const std::string tail = with(site.substr(env), "\"" + field + "\"", "\"x_" + field + "\"");
    EXPECT_THAT(refusal(site.substr(0, env) + tail),
                HasSubstr("at /env/0: unknown field 'x_" + field + "'"));
  }
  const std::string tail = with(site.substr(env), "\"historical\"", "\"sometimes\"");
  EXPECT_THAT(
      refusal(site.substr(0, env) + tail),
      HasSubstr("at /env/0/when: 'sometimes' is not a condition at 'sometimes': write always"));
}

TEST(SiteCatalog, FindsByIdAliasAndFile) {
  EXPECT_EQ(find_site("jz", Environment()).value().id, "jean-zay");
  const auto unknown = find_site("nowhere", Environment());
  EXPECT_THAT(unknown.status().message(), HasSubstr("no site 'nowhere': the known ones are "));
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
  const auto without = find_site("jean-zay", environment);
  ASSERT_TRUE(without.is_ok()) << without.status().message();
  EXPECT_EQ(without.value().origin, "embedded");
  ASSERT_EQ(without.value().warnings.size(), 1U);
  EXPECT_THAT(without.value().warnings[0], HasSubstr("cannot be listed"));
}

/// A folder of HVD_SITE_PATH for the length of a test.
class SiteFolder {
 public:
  SiteFolder() { EXPECT_NE(mkdtemp(path_.data()), nullptr); }
  ~SiteFolder() { std::filesystem::remove_all(path_); }
  SiteFolder(const SiteFolder&) = delete;
  SiteFolder& operator=(const SiteFolder&) = delete;

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ + "/" + name) << text;
  }
  Environment environment() const { return variable("HVD_SITE_PATH", path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = testing::TempDir() + "/sites.XXXXXX";
};

/// The head of a file that extends another.
std::string extending(const std::string& id, const std::string& base, const std::string& rest) {
  return R"({"id": ")" + id + R"(", "extends": ")" + base +
         R"(", "provenance": {"idris": {"source": "my wiki", "date": "2026-10", "mark": "seen"}},
           "source": "idris")" +
         rest + "}";
}

TEST(SiteExtends, TakesOverAndOverridesByName) {
  const SiteFolder folder;
  folder.write("jz.json", extending("jean-zay", "jean-zay", R"(, "time": "02:00:00",
    "partitions": [{"name": "gpu_p2", "max_time": "50:00:00", "source": "idris",
                    "qos": [{"name": "mine", "max_time": "01:00:00"}]}],
    "env": [{"name": "A", "value": "1", "when": "always", "why": "w", "source": "idris"}])"));
  const auto found = detect_site(folder.environment(), "jean-zay3");
  ASSERT_TRUE(found.is_ok()) << found.status().message();
  const SiteConfig& site = found.value();
  EXPECT_EQ(site.found_by, "the host name jean-zay3 matches ^jean-zay[0-9]*([.-]|$)");
  EXPECT_EQ(site.name, "Jean Zay, IDRIS");
  EXPECT_EQ(site.time, "02:00:00");
  EXPECT_EQ(provenance_of(site, "time").source, "my wiki");
  EXPECT_EQ(provenance_of(site, "gres_style").source, "IDRIS page on Horovod");
  ASSERT_EQ(site.partitions.size(), 6U);
  const SitePartition& partition = site.partitions[1];
  EXPECT_EQ(partition.cores_per_task, 3);
  EXPECT_THAT(provenance_of(partition, "cores_per_task").source, HasSubstr("idris.fr"));
  EXPECT_EQ(partition.max_time, "50:00:00");
  EXPECT_EQ(provenance_of(partition, "max_time").source, "my wiki");
  ASSERT_EQ(partition.qos.size(), 4U);
  EXPECT_EQ(partition.qos[3].provenance.source, "my wiki");
  ASSERT_EQ(site.env.size(), 1U);
}

TEST(SiteExtends, AnotherIdInheritsNothingToBeRecognisedBy) {
  const SiteFolder folder;
  folder.write("lab.json", extending("lab", "piz-daint", R"(, "name": "Lab")"));
  const SiteConfig site = find_site("lab", folder.environment()).value();
  EXPECT_EQ(site.env.size(), 4U);
  EXPECT_TRUE(site.aliases.empty());
  EXPECT_TRUE(site.retired.empty());
  EXPECT_EQ(find_site(folder.path() + "/lab.json", Environment()).value().partitions.size(), 1U);
}

TEST(SiteExtends, SaysWhatIsWrongAndWhere) {
  const std::tuple<std::string, std::string, std::string> cases[] = {
      {"nowhere", "",
       "a.json: at /extends: no site 'nowhere': the known ones are a, alps-clariden"},
      {"b", "", "b.json: at /extends: a -> b -> a is a cycle: one of them must stand alone"},
      {"a", "", "a.json: at /extends: a -> a is a cycle"},
      {"generic", R"(, "partitions": [{"name": "p", "source": "idris"}])",
       "a.json (with what it extends): 3 errors:\n  at /partitions/0: the field 'select'"},
  };
  for (const auto& [base, rest, message] : cases) {
    const SiteFolder folder;
    folder.write("a.json", extending("a", base, rest));
    folder.write("b.json", extending("b", "a", ""));
    const auto site = find_site("a", folder.environment());
    EXPECT_THAT(site.is_ok() ? "accepted" : site.status().message(), HasSubstr(message));
  }
}

std::vector<std::string> ids_of(const std::vector<SiteConfig>& sites) {
  std::vector<std::string> ids;
  ids.reserve(sites.size());
  for (const SiteConfig& site : sites) ids.push_back(site.id);
  return ids;
}

TEST(SiteCatalog, AFileThatCannotBeReadStopsThoseAloneWhoNameIt) {
  const std::pair<std::string, std::string> cases[] = {
      {"{\n  \"id\": \"lab\",,\n}", "/jean-zay.json: line 2, column 15: syntax error"},
      {"{}", "/jean-zay.json: 7 errors:\n  at /: the field 'id' is missing\n  at /: the field"},
      {R"({"id": "lab", "detect": {"hostname": "("}})", "/jean-zay.json: at /detect/hostname: "},
  };
  for (const auto& [text, problem] : cases) {
    const SiteFolder folder;
    folder.write("jean-zay.json", text);
    folder.write("sound.json", extending("sound", "generic", R"(, "name": "Sound")"));
    const Environment environment = folder.environment();
    for (const std::string name : {"sound", "lumi"}) {
      const auto other = find_site(name, environment);
      ASSERT_TRUE(other.is_ok()) << other.status().message();
      ASSERT_EQ(other.value().warnings.size(), 1U);
      EXPECT_THAT(other.value().warnings[0], HasSubstr("warning: a site file is left out: "));
      EXPECT_THAT(other.value().warnings[0], HasSubstr(problem));
      EXPECT_THAT(other.value().warnings[0], HasSubstr("\nhint: 'hvdrun sites --check'"));
    }
    EXPECT_EQ(detect_site(environment, "laptop").value().warnings.size(), 1U);
    EXPECT_THAT(find_site("jean-zay", environment).status().message(), HasSubstr(problem));
    EXPECT_THAT(find_site(folder.path() + "/jean-zay.json", environment).status().message(),
                HasSubstr(problem));
    std::vector<std::string> warnings;
    const auto sites = all_sites(environment, warnings);
    ASSERT_TRUE(sites.is_ok()) << sites.status().message();
    EXPECT_EQ(warnings.size(), 1U);
    EXPECT_THAT(ids_of(sites.value()), testing::IsSupersetOf({"jean-zay", "sound"}));
  }
}

struct NearSiteCase {
  const char* typed;
  std::vector<std::string> meant;
};

TEST(NearSites, BeginAlikeOrAreALetterAway) {
  const std::vector<SiteEntry> entries = site_index(Environment()).value();
  const NearSiteCase cases[] = {
      {"alps", {"alps-clariden", "alps-daint"}},
      {"daint", {"alps-daint", "piz-daint"}},
      {"CSCS", {"alps-clariden", "alps-daint", "piz-daint"}},
      {"jean_zay", {"jean-zay"}},
      {"JeanZay", {"jean-zay"}},
      {"idris", {"jean-zay"}},
      {"lumig", {"lumi"}},
      {"juwels", {"juwels-booster"}},
      {"lonestar", {"tacc-lonestar6"}},
      {"nowhere", {}},
      {"a", {}},
      {"", {}},
  };
  for (const NearSiteCase& c : cases) EXPECT_EQ(near_sites(entries, c.typed), c.meant) << c.typed;
}

TEST(NearSites, AreNamedWhereASiteIsNotKnown) {
  const std::string near = find_site("alps", Environment()).status().message();
  EXPECT_THAT(near, testing::EndsWith("\nhint: did you mean alps-clariden, alps-daint?"));
  const std::string far = find_site("nowhere", Environment()).status().message();
  EXPECT_THAT(far, testing::Not(HasSubstr("did you mean")));
}

TEST(SiteCatalog, AListLeavesOutAFileOfWrongValues) {
  const SiteFolder folder;
  folder.write("wrong.json", R"({"id": "wrong", "partitions": 7})");
  EXPECT_TRUE(find_site("lumi", folder.environment()).value().warnings.empty());
  EXPECT_FALSE(find_site("wrong", folder.environment()).is_ok());
  std::vector<std::string> warnings;
  const auto sites = all_sites(folder.environment(), warnings);
  ASSERT_TRUE(sites.is_ok()) << sites.status().message();
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_THAT(warnings[0], HasSubstr("wrong.json: 6 errors:\n  at /partitions: it is 7"));
}

TEST(SiteCatalog, ReadsTheUsersConfigurationBehindTheSitePath) {
  const SiteFolder folder;
  const std::string sites = folder.path() + "/hvdrun/sites";
  std::filesystem::create_directories(sites);
  std::ofstream(sites + "/x.json") << extending("x", "generic", R"(, "name": "Mine")");
  EXPECT_EQ(find_site("x", variable("XDG_CONFIG_HOME", folder.path())).value().name, "Mine");
  EXPECT_FALSE(find_site("x", variable("HOME", folder.path())).is_ok());
}

TEST(SiteCatalog, DetectsTheSiteOrTakesTheGenericOne) {
  EXPECT_EQ(detect_site(variable("SLURM_CLUSTER_NAME", "jean-zay"), "r1").value().id, "jean-zay");
  EXPECT_EQ(detect_site(Environment(), "jean-zay3").value().id, "jean-zay");
  EXPECT_EQ(detect_site(Environment(), "laptop").value().id, "generic");
}

TEST(ShownArguments, MayHaveNoNameBeforeTheirValue) {
  EXPECT_EQ(shown_arguments({"[", "$A", "=", "b", "]", "=c", "=https://me:abc@host/x"}),
            (std::vector<std::string>{"[", "$A", "=", "b", "]", "=c", "=(redacted)"}));
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
  EXPECT_EQ(settings[1].provenance.date, "2026-06");
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
