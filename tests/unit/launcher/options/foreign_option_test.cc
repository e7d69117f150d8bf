// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/foreign_option.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>

#include "launcher/lint/known_variable.h"
#include "launcher/options/command_table.h"

namespace hvd {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kTakers[] = {"run", "explain", "header", "script", "submit"};

/// Every option of the table as someone types it.
std::vector<std::string> typed_names(const ForeignOption& option) {
  std::vector<std::string> typed;
  std::istringstream names{std::string(option.names)};
  for (std::string name; names >> name;) {
    if (name.ends_with('*')) name.back() = 'x';
    typed.push_back("-" + name);
    if (name.size() > 1) typed.push_back("--" + name);
    if (name.size() > 1) typed.push_back("--" + name + "=7");
  }
  return typed;
}

std::string answer(const std::vector<std::string>& arguments) {
  const Result<CommandLine> parsed = parse_command_line(arguments);
  if (parsed.is_ok()) return "taken";
  EXPECT_EQ(parsed.status().code(), Code::kInvalidArgument);
  return parsed.status().message();
}

TEST(ForeignOption, EveryOneIsAnsweredWithItsRemedy) {
  for (const char* command : kTakers) {
    for (const ForeignOption& option : foreign_options(command)) {
      for (const std::string& typed : typed_names(option)) {
        const std::string sentence =
            "unknown option '" + typed + "'\nhint: " + std::string(option.remedy);
        EXPECT_EQ(answer({command, typed, "7", "true"}), sentence) << command;
      }
    }
  }
}

TEST(ForeignOption, RemediesNameOptionsAndVariablesThatThereAre) {
  const std::regex variable("HVD_[A-Z_]+");
  const std::regex option("(?:write|or|hvdrun [a-z]+) (--?[a-z-]+)");
  for (const char* command : kTakers) {
    std::set<std::string> known{"--build", "-m"};
    for (const CommandEntry& entry : command_table()) {
      for (const OptionDescription& described : describe_command(entry).options) {
        const bool is_named_here = entry.name == command || entry.name == "submit";
        if (is_named_here) known.insert(described.names.begin(), described.names.end());
      }
    }
    for (const ForeignOption& foreign : foreign_options(command)) {
      const std::string remedy(foreign.remedy);
      for (std::sregex_iterator it(remedy.begin(), remedy.end(), variable), end; it != end; ++it) {
        EXPECT_NE(find_variable(it->str()), nullptr) << it->str();
      }
      for (std::sregex_iterator it(remedy.begin(), remedy.end(), option), end; it != end; ++it) {
        EXPECT_TRUE(known.contains((*it)[1].str())) << remedy;
      }
    }
  }
}

struct TypedCase {
  std::vector<std::string> arguments;
  const char* sentence;
};

TEST(ForeignOption, IsKnownInEverySpelling) {
  const TypedCase cases[] = {
      {{"-H", "localhost:2", "true"}, "unknown option '-H'\nhint: leave it out: ranks start"},
      {{"-Hlocalhost:2", "true"}, "unknown option '-Hlocalhost:2'\nhint: leave it out: ranks"},
      {{"-p", "22", "true"}, "unknown option '-p'\nhint: leave it out: there is no ssh"},
      {{"-p22", "true"}, "unknown option '-p22'\nhint: leave it out: there is no ssh"},
      {{"--nproc_per_node=4", "true"}, "unknown option '--nproc_per_node=4'\nhint: write -np N"},
      {{"--nproc-per-node", "4", "true"}, "hint: write -np N"},
      {{"-np", "2", "-hostfile", "f", "true"}, "hint: leave it out: ranks start on this machine"},
      {{"-bind-to", "none", "true"}, "unknown option '-bind-to'\nhint: write --bind"},
      {{"-nnodes", "2", "true"}, "unknown option '-nnodes'\nhint: write --nodes N"},
      {{"-cb"}, "unknown option '-cb'\nhint: write hvdrun check --build"},
      {{"-N2", "true"}, "unknown option '-N2'\nhint: srun's -N: write --nodes N, without -np"},
      {{"-N", "2", "true"}, "Open MPI's, ranks of each node: write -np N"},
      {{"-D/scratch", "true"}, "unknown option '-D/scratch'\nhint: type cd DIR before"},
      {{"-wn1,n2", "true"}, "unknown option '-wn1,n2'\nhint: leave it out: ranks start"},
      {{"-perhost", "4", "true"}, "hint: write -np N for N ranks on this machine"},
      {{"-pernode", "true"}, "hint: write -np N for N ranks on this machine"},
      {{"-envall", "true"}, "hint: write -x NAME=VALUE"},
      {{"-prepend-rank", "true"}, "hint: write --prefix"},
      {{"-walltime", "1:00", "true"}, "hint: leave it out: it is the job's"},
      {{"header", "-walltime", "1:00"}, "hint: write -t HH:MM:SS"},
      {{"submit", "-perhost", "4", "--", "a"}, "hint: write --ntasks-per-node N"},
      {{"--disable-cache", "true"}, "hint: leave it out: nothing about hosts is kept"},
      {{"--torus-allreduce", "true"}, "hint: leave it out: NCCL chooses how an allreduce goes"},
      {{"--max_restarts=3", "true"}, "hint: leave it out: hvd.elastic.run(reset_limit=...)"},
      {{"--autotune-log-file", "f", "true"}, "hint: leave it out: there is nothing to tune"},
      {{"submit", "-ppn", "4", "--", "a"}, "unknown option '-ppn'\nhint: write --ntasks-per"},
      {{"script", "-np", "4", "--", "a"}, "unknown option '-np'\nhint: write --gpus N"},
  };
  for (const TypedCase& c : cases) EXPECT_THAT(answer(c.arguments), HasSubstr(c.sentence));
}

TEST(ForeignOption, NoLetterIsGuessed) {
  for (const char* word : {"-z", "-y", "-Z", "-j", "-zx"}) {
    EXPECT_EQ(answer({word, "1", "true"}), std::string("unknown option '") + word +
                                               "'\nhint: 'hvdrun --help' lists the options");
  }
  EXPECT_THAT(answer({"-pn", "2", "true"}), HasSubstr("did you mean -np?"));
  for (const char* word :
       {"-launcher", "-print-rank-map", "-merge-stderr-to-stdout", "-iface", "-tv", "-file"}) {
    EXPECT_EQ(answer({word, "true"}), std::string("unknown option '") + word +
                                          "'\nhint: 'hvdrun --help' lists the options");
  }
  for (const char* word : {"-test", "-timeout"}) {
    EXPECT_THAT(answer({word, "true"}), Not(HasSubstr("it is the job's"))) << word;
  }
  EXPECT_THAT(answer({"check", "-H"}), HasSubstr("'hvdrun check --help' lists the options"));
}

}  // namespace
}  // namespace hvd
