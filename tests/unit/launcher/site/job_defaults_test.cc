// SPDX-License-Identifier: Apache-2.0
#include "launcher/site/job_defaults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "launcher/job/prepared_job.h"
#include "launcher/site/site_catalog.h"

namespace hvd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Variables = std::map<std::string, std::string, std::less<>>;

/// defaults.json of the user and of the system, for the length of a test.
class DefaultsTree {
 public:
  explicit DefaultsTree(const std::string& of_user, const std::string& of_system = "") {
    EXPECT_NE(mkdtemp(path_.data()), nullptr);
    write("home", of_user);
    write("etc", of_system);
  }
  ~DefaultsTree() { std::filesystem::remove_all(path_); }
  DefaultsTree(const DefaultsTree&) = delete;
  DefaultsTree& operator=(const DefaultsTree&) = delete;

  std::string path(const std::string& whose) const {
    return path_ + "/" + whose + "/hvdrun/defaults.json";
  }
  Environment environment() const {
    return Environment(
        Variables{{"XDG_CONFIG_HOME", path_ + "/home"}, {"XDG_CONFIG_DIRS", path_ + "/etc"}});
  }

 private:
  void write(const std::string& whose, const std::string& text) const {
    std::filesystem::create_directories(path_ + "/" + whose + "/hvdrun");
    if (!text.empty()) std::ofstream(path(whose)) << text;
  }

  std::string path_ = testing::TempDir() + "/defaults.XXXXXX";
};

DefaultedOptions filled(const DefaultsTree& tree, const std::string& site,
                        const JobOptions& typed) {
  Result<DefaultedOptions> result =
      with_defaults(typed, find_site(site, Environment()).value(), tree.environment());
  EXPECT_TRUE(result.is_ok()) << result.status().message();
  return result.is_ok() ? std::move(result).value() : DefaultedOptions{typed, {}, {}};
}

constexpr const char* kOfUser = R"({
  "account": "abc", "time": "02:00:00", "sbatch": {"mail-type": "END", "spread-job": ""},
  "sites": {"jean-zay": {"account": "xyz", "partition": "gpu_p2", "qos": "qos_gpu-t4",
                         "modules": ["pytorch-gpu/py3/2.8.0"]}}})";

TEST(JobDefaults, OfTheSiteComeBeforeThoseOfAllAndTheUsersBeforeTheSystems) {
  const DefaultsTree tree(kOfUser, R"({"account": "sys", "mem": "64G", "modules": ["base"]})");
  const DefaultedOptions jean_zay = filled(tree, "jean-zay", {.gpus = 8});
  EXPECT_EQ(jean_zay.options.account, "xyz");
  EXPECT_EQ(jean_zay.options.partition, "gpu_p2");
  EXPECT_EQ(jean_zay.options.qos, "qos_gpu-t4");
  EXPECT_EQ(jean_zay.options.time, "02:00:00");
  EXPECT_EQ(jean_zay.options.mem, "64G");
  EXPECT_THAT(jean_zay.options.modules, ElementsAre("pytorch-gpu/py3/2.8.0"));
  ASSERT_EQ(jean_zay.options.sbatch.size(), 2U);
  EXPECT_EQ(jean_zay.options.sbatch[0].name, "mail-type");
  EXPECT_THAT(
      jean_zay.origins,
      ElementsAre(tree.path("home") + " gives account, partition, qos, modules, time, mail-type, "
                                      "spread-job",
                  tree.path("etc") + " gives mem"));
  const DefaultedOptions lumi = filled(tree, "lumi", {.gpus = 8});
  EXPECT_EQ(lumi.options.account, "abc");
  EXPECT_EQ(lumi.options.partition, "");
  EXPECT_THAT(lumi.options.modules, ElementsAre("base"));
}

TEST(JobDefaults, GiveWayToWhatIsTyped) {
  const DefaultsTree tree(kOfUser);
  JobOptions typed{.partition = "gpu_p13", .gpus = 8, .time = "10", .account = "me"};
  typed.modules = {"mine"};
  typed.sbatch = {{"mail-type", "FAIL"}};
  const DefaultedOptions result = filled(tree, "jean-zay", typed);
  EXPECT_EQ(result.options.account, "me");
  EXPECT_EQ(result.options.time, "10");
  EXPECT_EQ(result.options.partition, "gpu_p13");
  EXPECT_EQ(result.options.qos, "") << "a QoS goes with the partition of its file";
  EXPECT_THAT(result.options.modules, ElementsAre("mine"));
  EXPECT_EQ(result.options.sbatch[0].value, "FAIL");
}

TEST(JobDefaults, OfAPartitionThatTheSiteLacksAreNotTaken) {
  const DefaultsTree tree(R"({"partition": "gpu_p2", "qos": "qos_gpu-t4"})");
  EXPECT_EQ(filled(tree, "jean-zay", {}).options.partition, "gpu_p2");
  EXPECT_EQ(filled(tree, "lumi", {}).options.partition, "");
  EXPECT_EQ(filled(tree, "lumi", {}).options.qos, "");
  EXPECT_EQ(filled(tree, "generic", {}).options.partition, "gpu_p2");
}

TEST(JobDefaults, AreToldAllThatIsWrongWithThem) {
  const std::string wrong = R"({"acct": "x", "time": "soon", "modules": "one"})";
  const DefaultsTree of_user(wrong);
  const SiteConfig site = find_site("lumi", Environment()).value();
  const std::string text = with_defaults({}, site, of_user.environment()).status().message();
  EXPECT_THAT(text, HasSubstr("defaults.json: 3 errors:"));
  EXPECT_THAT(text, HasSubstr("\n  at /: unknown field 'acct'"));
  EXPECT_THAT(text, HasSubstr("\n  at /modules: it is \"one\", but must be of type array"));
  const DefaultsTree unknown(
      R"({"sites": {"lumi": {"sbatch": {"reservatoin": "r", "qos": "q"}}}})");
  const std::string settings = check_defaults(unknown.path("home"), {}).message();
  EXPECT_THAT(settings, HasSubstr("\n  at /sites/lumi/sbatch/reservatoin: "));
  EXPECT_THAT(settings, HasSubstr("\n  at /sites/lumi/sbatch/qos: hvdrun has a field"));

  const DefaultsTree of_system(R"({"account": "abc"})", wrong);
  const DefaultedOptions result = filled(of_system, "lumi", {});
  EXPECT_EQ(result.options.account, "abc");
  ASSERT_EQ(result.warnings.size(), 1U);
  EXPECT_THAT(result.warnings[0], HasSubstr("warning: left out: "));
}

TEST(JobDefaults, OfASiteThatNobodyKnowsAreSaidToBe) {
  const DefaultsTree tree(
      R"({"sites": {"frontier": {}, "jeanzai": {"account": "a"}, "lumi": {"account": "b"},
                    "qqqqq": {}}})");
  const DefaultedOptions result = filled(tree, "lumi", {});
  EXPECT_EQ(result.options.account, "b");
  EXPECT_THAT(result.warnings,
              ElementsAre("warning: '" + tree.path("home") +
                              "': at /sites/jeanzai: no site 'jeanzai': did you mean jean-zay?",
                          HasSubstr("no site 'qqqqq': 'hvdrun sites' lists the known ones")));
  const auto entries = site_index(tree.environment());
  ASSERT_TRUE(entries.is_ok());
  EXPECT_THAT(check_defaults(tree.path("home"), entries.value()).message(),
              HasSubstr("\n  at /sites/jeanzai: no site 'jeanzai'"));
}

TEST(JobDefaults, StandInTheHeaderWithTheirFile) {
  const DefaultsTree tree(R"({"account": "abc"})");
  const Result<PreparedJob> job = prepare_job({.site = "jean-zay", .gpus = 8}, tree.environment());
  ASSERT_TRUE(job.is_ok()) << job.status().message();
  EXPECT_THAT(job.value().text, HasSubstr("#SBATCH --account=abc@v100\n"));
  EXPECT_THAT(job.value().text, HasSubstr("# " + tree.path("home") + " gives account.\n"));
  const DefaultsTree foreign(R"({"account": "p200000"})");
  const Result<PreparedJob> refused =
      prepare_job({.site = "lumi", .gpus = 8}, foreign.environment());
  EXPECT_THAT(
      refused.status().message(),
      HasSubstr("'p200000' is not an account of site lumi: they look like project_462000001\n"
                "hint: " +
                foreign.path("home") + " gives account"));
  EXPECT_THAT(filled(DefaultsTree(""), "lumi", {}).origins, IsEmpty());
}

}  // namespace
}  // namespace hvd
