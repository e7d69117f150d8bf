// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "launcher/console/line_width.h"
#include "launcher/options/command_table.h"
#include "launcher/options/nearest.h"

namespace hvd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(OptionDescription, ListsItsChoices) {
  EXPECT_THAT((OptionDescription{{"--bind"}, "cores|none", "", ""}.choices()),
              ElementsAre("cores", "none"));
  EXPECT_THAT((OptionDescription{{"--bind"}, "cores|map:LIST", "", ""}.choices()),
              ElementsAre("cores", "map:"));
  EXPECT_THAT((OptionDescription{{"--time"}, "HH:MM:SS", "", ""}.choices()), IsEmpty());
}

TEST(Wrapped, BreaksBetweenWordsOnly) {
  EXPECT_THAT(wrapped("one two  three", 7), ElementsAre("one two", "three"));
  EXPECT_THAT(wrapped("a-very-long-word b", 4), ElementsAre("a-very-long-word", "b"));
  EXPECT_THAT(wrapped("", 4), IsEmpty());
}

struct NearestCase {
  const char* word;
  const char* meant;
};

TEST(Nearest, FindsWhatWasMistyped) {
  const std::vector<std::string> known{"--gpus", "--site", "--partition", "-np", "check"};
  for (const NearestCase& c : {NearestCase{"--gpu", "--gpus"},
                               {"--stie", "--site"},
                               {"--parition", "--partition"},
                               {"--part", "--partition"},
                               {"-pn", "-np"},
                               {"chekk", "check"},
                               {"--frobnicate", ""},
                               {"python3", ""},
                               {"", ""}}) {
    EXPECT_EQ(nearest(c.word, known), c.meant) << c.word;
  }
}

TEST(EditDistance, CountsASwapOnce) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
  EXPECT_EQ(edit_distance("check", "hceck"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
}

TEST(CommandTable, DescribesEveryCommandForPeople) {
  for (const CommandEntry& entry : command_table()) {
    const CommandDescription command = describe_command(entry);
    EXPECT_EQ(command.name, entry.name);
    EXPECT_FALSE(command.about.empty()) << entry.name;
    EXPECT_FALSE(command.examples.empty()) << entry.name;
    EXPECT_LE(command.summary.size(), 80U) << entry.name << ": the summary is one line of --help";
    std::set<std::string> names;
    for (const OptionDescription& option : command.options) {
      EXPECT_FALSE(option.meaning.empty()) << entry.name << " " << spelling(option);
      EXPECT_NE(option.value, "TEXT")
          << entry.name << " " << spelling(option) << ": give it a type_name";
      for (const std::string& name : option.names) {
        EXPECT_TRUE(names.insert(name).second) << entry.name << " has two of " << name;
      }
    }
  }
}

TEST(CommandTable, HelpHasEveryOptionAndEveryCommand) {
  for (const CommandEntry& entry : command_table()) {
    Result<CommandLine> asked = parse_command_line({std::string(entry.name), "--help"});
    ASSERT_TRUE(asked.is_ok());
    const std::string help = std::get<PrintAndExit>(asked.value()).text;
    for (const OptionDescription& option : describe_command(entry).options) {
      EXPECT_THAT(help, HasSubstr(spelling(option)));
    }
  }
  Result<CommandLine> whole = parse_command_line({"--help"});
  ASSERT_TRUE(whole.is_ok());
  for (const CommandDescription& command : describe_commands()) {
    if (command.name == "run") continue;
    EXPECT_THAT(std::get<PrintAndExit>(whole.value()).text,
                HasSubstr(command.summary.substr(0, 30)));
  }
}

struct WrongCase {
  std::vector<std::string> arguments;
  const char* sentence;
};

TEST(CommandLine, SaysWhatIsWrongAndWhatToType) {
  const WrongCase cases[] = {
      {{"header", "--gpu", "4"}, "unknown option '--gpu'\nhint: did you mean --gpus?"},
      {{"header", "--stie=x"}, "unknown option '--stie=x'\nhint: did you mean --site?"},
      {{"--frobnicate", "true"}, "unknown option '--frobnicate'\nhint: 'hvdrun --help' lists"},
      {{"submit", "--josn", "--site", "lumi", "--gpus", "4", "--", "a"}, "unknown option '--josn'"},
      {{"--wandb-key=hush", "true"}, "unknown option '--wandb-key'\n"},
      {{"--frobnicate", "--bind", "cores", "-np", "2", "true"}, "unknown option '--frobnicate'"},
      {{"-np"}, "-np needs a value: -np N\n"},
      {{"-np", "2", "-np", "4", "true"}, "-np is given 2 times: type it once\n"},
      {{"-np", "0", "true"}, "-np: 0 is not in the range 1 to 65536\nhint: "},
      {{"-np", "four", "true"},
       "-np: 'four' is not a whole number; type one from 1 to 65536\nhint: "},
      {{"-n", "2.5", "true"}, "-np: '2.5' is not a whole number; type one from 1 to 65536\n"},
      {{"-np", "--prefix", "true"}, "-np: '--prefix' is not a whole number; type one from 1 to"},
      {{"--nodes", "99999999999", "true"}, "--nodes: 99999999999 is not in the range 1 to 65536\n"},
      {{"--grace", "abc", "true"}, "--grace: 'abc' is not a number; type one from 0 to 86400\n"},
      {{"--grace", "nan", "true"}, "--grace: 'nan' is not a number; type one from 0 to 86400\n"},
      {{"--grace", "-0.5", "true"}, "--grace: -0.5 is not in the range 0 to 86400\n"},
      {{"header", "--nodes", "x"},
       "--nodes: 'x' is not a whole number; type one from 1 to 1048576\n"},
      {{"--bind", "core", "true"}, "--bind: 'core' is not one of cores,"},
      {{"--prefix", "--no-prefix", "true"}, "--prefix and --no-prefix exclude each other"},
      {{"check", "everything"}, "unexpected argument 'everything'\nhint: 'hvdrun check --help'"},
      {{"check", "--describe", "x"}, "unknown option '--describe'"},
      {{"check", "--describe"}, "unknown option '--describe'"},
      {{"help", "chekk"}, "hint: did you mean check?"},
      {{}, "no program to run: "},
  };
  for (const WrongCase& c : cases) {
    const Result<CommandLine> parsed = parse_command_line(c.arguments);
    ASSERT_FALSE(parsed.is_ok()) << c.sentence;
    EXPECT_EQ(parsed.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(parsed.status().message(), HasSubstr(c.sentence));
  }
}

TEST(CommandLine, RefusesWhatContradictsItself) {
  const WrongCase cases[] = {
      {{"-x", "HVD_RANK=3", "true"}, "-x HVD_RANK: hvdrun sets HVD_RANK itself, for each rank its"},
      {{"-np", "2", "-x", "HVD_STORE", "true"}, "-x HVD_STORE: hvdrun sets HVD_STORE itself"},
      {{"submit", "--interactive", "--follow"}, "--interactive contradicts --follow (or --wait): "},
      {{"submit", "--interactive", "--wait"}, "--interactive contradicts --follow (or --wait): "},
      {{"submit", "--interactive", "--parsable"}, "--interactive contradicts --parsable: "},
      {{"submit", "--interactive", "--launch-dir", "d"}, "--interactive contradicts --launch-dir"},
  };
  for (const WrongCase& c : cases) {
    const Result<CommandLine> parsed = parse_command_line(c.arguments);
    ASSERT_FALSE(parsed.is_ok()) << c.sentence;
    EXPECT_THAT(parsed.status().message(), HasSubstr(c.sentence));
  }
  EXPECT_TRUE(parse_command_line({"-x", "HVD_RANKS=3", "true"}).is_ok());
  EXPECT_TRUE(parse_command_line({"script", "--interactive"}).is_ok());
}

TEST(CommandLine, TakesNamesOfModulesBetweenCommasAndSpaces) {
  const Result<CommandLine> parsed =
      parse_command_line({"script", "--modules", "a, foo", "--modules", "b c,", "--", "true"});
  ASSERT_TRUE(parsed.is_ok()) << parsed.status().message();
  EXPECT_THAT(std::get<JobOptions>(parsed.value()).modules, ElementsAre("a", "foo", "b", "c"));
}

std::size_t longest_line(const std::string& text) {
  std::size_t longest = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    longest = std::max(longest, end - begin);
    begin = end + 1;
  }
  return longest;
}

TEST(HelpText, IsAsWideAsTheTerminal) {
  const CommandDescription command = describe_command(command_table().front());
  for (const std::size_t width : {60, 80, 100}) {
    // An example is one line, to be copied, as is the list of an option's values.
    CommandDescription plain = command;
    plain.examples.clear();
    std::erase_if(plain.options,
                  [](const OptionDescription& one) { return one.value.size() > 20; });
    const std::string text = help_text(plain, describe_commands(), width);
    EXPECT_LE(longest_line(text), std::max<std::size_t>(width, 60)) << text;
    EXPECT_GT(longest_line(text), width - 10) << text;
  }
}

TEST(LineWidth, IsThatOfColumnsOrUnknown) {
  const int nothing = -1;
  Environment environment;
  EXPECT_EQ(line_width(nothing, environment), std::nullopt);
  environment.set("COLUMNS", "72");
  EXPECT_EQ(line_width(nothing, environment), 72U);
  environment.set("COLUMNS", "wide");
  EXPECT_EQ(line_width(nothing, environment), std::nullopt);
}

TEST(CommandLine, NamesTheWholeWordThatIsNoOption) {
  const WrongCase cases[] = {
      {{"-np", "2", "-hostfile", "f", "python"}, "unknown option '-hostfile'\n"},
      {{"-host", "a,b", "python"}, "unknown option '-host'\n"},
      {{"-hosts", "a", "python"}, "unknown option '-hosts'\n"},
      {{"header", "--site", "jean-zay", "-host"}, "unknown option '-host'\n"},
      {{"-vh", "true"}, "unknown option '-vh'\n"},
      {{"check", "-hq"}, "unknown option '-hq'\n"},
      {{"-np=2", "true"}, "unknown option '-np=2'\nhint: write -np 2"},
      {{"-n=2", "true"}, "unknown option '-n=2'\nhint: write -n 2"},
      {{"-nodes", "2", "true"}, "unknown option '-nodes'\nhint: write --nodes 2"},
      {{"-nodes=2", "true"}, "unknown option '-nodes=2'\nhint: write --nodes 2"},
      {{"-verbose", "true"}, "unknown option '-verbose'\nhint: write --verbose"},
      {{"-help"}, "unknown option '-help'\nhint: write --help"},
      {{"header", "-partition", "p"}, "unknown option '-partition'\nhint: write --partition p"},
      {{"topo", "-np=2"}, "unknown option '-np=2'\nhint: write -np 2"},
      {{"lint", "file", "-json"}, "unknown option '-json'\n"},
  };
  for (const WrongCase& c : cases) {
    const Result<CommandLine> parsed = parse_command_line(c.arguments);
    ASSERT_FALSE(parsed.is_ok()) << c.sentence;
    EXPECT_THAT(parsed.status().message(), HasSubstr(c.sentence));
  }
}

TEST(CommandLine, TakesLettersThatAreWrittenTogether) {
  const Result<CommandLine> parsed =
      parse_command_line({"-vn", "2", "-c4", "-xA=-h", "-x", "-b", "prog", "-hosts"});
  ASSERT_FALSE(parsed.is_ok());  // of -x alone: the word before it was read
  EXPECT_THAT(parsed.status().message(), HasSubstr("-x '-b' names no variable"));
  const Result<CommandLine> whole =
      parse_command_line({"-vn", "2", "-c4", "-xA=-h", "prog", "-hosts"});
  ASSERT_TRUE(whole.is_ok()) << whole.status().message();
  const auto& options = std::get<RunOptions>(whole.value());
  EXPECT_TRUE(options.verbose);
  EXPECT_EQ(options.ranks, 2);
  EXPECT_EQ(options.cpus_per_rank, 4);
  EXPECT_THAT(options.command, ElementsAre("prog", "-hosts"));
  EXPECT_TRUE(std::holds_alternative<PrintAndExit>(parse_command_line({"-h", "-hosts"}).value()));
}

TEST(CommandLine, TheLastValueOfAVariableCounts) {
  const Result<CommandLine> parsed =
      parse_command_line({"-x", "A=1", "-x", "B=2", "-x", "A=3", "-x", "B", "prog"});
  ASSERT_TRUE(parsed.is_ok()) << parsed.status().message();
  const auto& variables = std::get<RunOptions>(parsed.value()).variables;
  ASSERT_EQ(variables.size(), 2U);
  EXPECT_EQ(variables[0].name + "=" + variables[0].value.value_or("?"), "A=3");
  EXPECT_EQ(variables[1].name + "=" + variables[1].value.value_or("the shell's"), "B=the shell's");
}

TEST(CommandLine, LeavesTheProgramItsOptions) {
  const Result<CommandLine> parsed =
      parse_command_line({"-np", "2", "prog", "--help", "-np", "--describe"});
  ASSERT_TRUE(parsed.is_ok());
  EXPECT_THAT(std::get<RunOptions>(parsed.value()).command,
              ElementsAre("prog", "--help", "-np", "--describe"));
}

}  // namespace
}  // namespace hvd
