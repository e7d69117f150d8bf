// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "launcher/job/job_plan.h"
#include "launcher/job/salloc.h"
#include "launcher/job/submission.h"
#include "launcher/job/template.h"
#include "launcher/options/command_line.h"
#include "launcher/options/sbatch_option.h"
#include "launcher/site/site_catalog.h"

namespace hvd {
namespace {

using testing::HasSubstr;
using testing::Not;

Result<JobOptions> parsed(std::vector<std::string> arguments) {
  HVD_TRY_ASSIGN(const CommandLine line, parse_command_line(arguments));
  return std::get<JobOptions>(line);
}

/// The header of what was typed, or why there is none.
std::string header(std::vector<std::string> arguments, const std::string& site = "generic") {
  const Result<JobOptions> options = parsed(std::move(arguments));
  if (!options.is_ok()) return options.status().message();
  const Result<JobPlan> plan = plan_job(find_site(site, Environment()).value(), options.value());
  if (!plan.is_ok()) return plan.status().message();
  return render_header(plan.value()).value();
}

/// A value that sbatch and hvdrun take for the option.
std::string value_for(std::string_view name) {
  static const std::map<std::string_view, std::string> kValues{
      {"array", "0-3"},        {"begin", "now+1hour"},
      {"cpus-per-task", "2"},  {"dependency", "afterok:12"},
      {"gpus", "2"},           {"gpus-per-node", "2"},
      {"gres", "nvme:1"},      {"mail-type", "END,FAIL"},
      {"mem", "4G"},           {"nodes", "2"},
      {"ntasks", "2"},         {"ntasks-per-node", "2"},
      {"open-mode", "append"}, {"signal", "USR2@60"},
      {"switches", "1"},       {"time", "00:10:00"}};
  const auto found = kValues.find(name);
  return found == kValues.end() ? "some" : found->second;
}

/// Those that hvdrun says in other lines, or that mean something to submit itself.
bool has_other_line(std::string_view command, std::string_view name) {
  if (name == "ntasks" || name == "gpus" || name == "gpus-per-node") return true;
  if (command == "header") return false;
  return name == "container" || (command == "submit" && (name == "wait" || name == "parsable"));
}

bool is_of_22_05(const SbatchOption& option) {
  return option.use != SbatchUse::kNewer && option.use != SbatchUse::kProgram;
}

std::vector<std::string> command_with(const std::string& command,
                                      const std::vector<std::string>& words, bool sized) {
  std::vector<std::string> arguments{command};
  arguments.insert(arguments.end(), words.begin(), words.end());
  if (!sized) arguments.insert(arguments.end(), {"--nodes", "2"});
  arguments.insert(arguments.end(), {"--", "train"});
  return arguments;
}

TEST(SbatchOptions, EachIsTakenByItsNameItsLetterAndAsASetting) {
  for (const SbatchOption& option : sbatch_options()) {
    if (!is_of_22_05(option)) continue;
    const std::string name(option.name);
    const bool has_value = option.argument == OptionArgument::kRequired;
    const std::string equals = has_value ? "=" + value_for(name) : "";
    std::vector<std::vector<std::string>> ways{{"--" + name + equals}, {"--sbatch", name + equals}};
    if (has_value) ways.push_back({"--" + name, value_for(name)});
    if (option.letter != 0) {
      ways.push_back({std::string("-") + option.letter});
      if (has_value) ways.back().push_back(value_for(name));
    }
    for (const std::string command : {"header", "script", "submit"}) {
      for (const std::vector<std::string>& way : ways) {
        const std::string text = header(command_with(command, way, name == "nodes"));
        const std::string line = "\n#SBATCH --" + name + equals + "\n";
        EXPECT_THAT(text, HasSubstr("#SBATCH --nodes=")) << command << " " << way.front();
        if (has_other_line(command, name)) continue;
        EXPECT_THAT(text, HasSubstr(line)) << command << " " << way.front();
      }
    }
  }
}

TEST(SbatchOptions, OnesWithAnOptionalValueTakeIt) {
  EXPECT_THAT(header({"header", "-N1", "--nice=50", "--propagate=NOFILE", "-k"}),
              HasSubstr("--nice=50\n#SBATCH --no-kill\n#SBATCH --propagate=NOFILE\n"));
  EXPECT_THAT(header({"header", "-N1", "--exclusive=user"}), HasSubstr("#SBATCH --exclusive=user"));
  EXPECT_THAT(header({"header", "-N1", "--exclusive"}), HasSubstr("#SBATCH --exclusive\n"));
}

TEST(SbatchOptions, MayBeCutShortAsTheCoursesDo) {
  EXPECT_THAT(header({"header", "-N", "2", "--res", "tensor2"}, "piz-daint"),
              HasSubstr("#SBATCH --reservation=tensor2\n"));
  EXPECT_THAT(header({"header", "-N", "2", "--res=tensor2"}), HasSubstr("reservation=tensor2"));
  // What is behind the program's name is the program's.
  const JobOptions options = parsed({"script", "-N1", "train", "--res", "x"}).value();
  EXPECT_EQ(options.command, (std::vector<std::string>{"train", "--res", "x"}));
  EXPECT_TRUE(options.sbatch.empty());
}

TEST(SbatchOptions, SayTheSizeInHvdrunsWords) {
  EXPECT_THAT(header({"header", "-n", "8"}, "jean-zay"),
              HasSubstr("#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n#SBATCH --gres=gpu:4\n"));
  EXPECT_THAT(header({"header", "-n", "8", "-N", "4"}),
              HasSubstr("--nodes=4\n#SBATCH --ntasks-per-node=2\n"));
  EXPECT_THAT(
      header({"header", "-N", "2", "--gres", "gpu:a100:4,nvme:1"}),
      HasSubstr("--ntasks-per-node=4\n#SBATCH --gpus-per-node=a100:4\n#SBATCH --gres=nvme:1\n"));
  EXPECT_THAT(header({"header", "-N", "2", "--gres", "gpu:4,nvme:1"}, "jean-zay"),
              HasSubstr("#SBATCH --gres=gpu:4,nvme:1\n"));
  EXPECT_THAT(header({"header", "-n", "7", "-N", "2"}), HasSubstr("type --nodes N"));
}

TEST(SbatchOptions, TakeThePlaceOfWhatTheSiteSays) {
  const std::string text = header({"header", "--gpus", "4", "--hint=multithread"}, "jean-zay");
  EXPECT_THAT(text, HasSubstr("--hint=multithread\n"));
  EXPECT_THAT(text, Not(HasSubstr("nomultithread")));
  EXPECT_THAT(header({"header", "--gpus", "4", "--nodelist", "c1"}, "tacc-vista"),
              HasSubstr("site tacc-vista does not want --nodelist=c1"));
}

struct Refused {
  std::vector<std::string> words;
  const char* sentence;
};

TEST(SbatchOptions, AreRefusedWhereSbatchOrTheyThemselvesDisagree) {
  const Refused cases[] = {
      {{"--sbatch", "time=1:00", "-t", "2:00"}, "--time=1:00 contradicts --time=2:00"},
      {{"--sbatch", "reservatoin=x"}, "did you mean --sbatch reservation?"},
      {{"--reservatoin", "x"}, "did you mean --reservation?"},
      {{"--sbatch", "reservation"}, "--reservation needs a value: type --reservation=VALUE"},
      {{"--sbatch", "contiguous=yes"}, "--contiguous takes no value"},
      {{"--sbatch", "nodes=2-4"}, "--nodes: '2-4' is not a whole number"},
      {{"--sbatch", "wrap=x"}, "type the program after --"},
      {{"--mail-type=MONDAY"}, "--mail-type 'MONDAY' is not what sbatch takes"},
      {{"--comment=a b"}, "which a #SBATCH line cannot carry"},
  };
  for (const Refused& refused : cases) {
    std::vector<std::string> arguments{"header", "-N1"};
    arguments.insert(arguments.end(), refused.words.begin(), refused.words.end());
    EXPECT_THAT(header(arguments), HasSubstr(refused.sentence));
  }
  EXPECT_THAT(header({"script", "-N1", "--requeue", "--no-requeue", "a"}),
              HasSubstr("--requeue contradicts --no-requeue"));
}

TEST(SbatchOptions, OfBatchJobsAreNotSallocs) {
  const JobOptions options = parsed({"header", "-N1", "-e", "log", "--interactive"}).value();
  const JobPlan plan = plan_job(find_site("generic", Environment()).value(), options).value();
  EXPECT_EQ(plan_salloc(plan, options).status().message(),
            "an interactive allocation has no --error: leave it out");
}

TEST(SbatchOptions, KeepTheUsersFolder) {
  const JobOptions options = parsed({"submit", "-N1", "-D", "/data", "a"}).value();
  EXPECT_THAT(sbatch_command(options, {"/jobs/a-1", "/home/me"}),
              Not(testing::Contains("--chdir=/home/me")));
}

}  // namespace
}  // namespace hvd
