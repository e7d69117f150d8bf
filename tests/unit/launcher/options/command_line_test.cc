// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/command_line.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <string>
#include <variant>
#include <vector>

namespace hvd {
namespace {

using std::chrono::milliseconds;

RunOptions parse(const std::vector<std::string>& arguments) {
  return std::get<RunOptions>(parse_command_line(arguments).value());
}

TEST(Options, EverythingFromTheProgramOnIsThePrograms) {
  EXPECT_EQ(parse({"-np", "2", "prog", "-np", "3", "--", "-x"}).command,
            (std::vector<std::string>{"prog", "-np", "3", "--", "-x"}));
  EXPECT_EQ(parse({"--", "-odd"}).command, std::vector<std::string>{"-odd"});
  EXPECT_EQ(parse({"run", "header"}).command, std::vector<std::string>{"header"});
  EXPECT_TRUE(parse({"explain", "prog"}).dry_run);
}

TEST(Options, ATestOfPreemptionTakesTimesAsTheyAreTyped) {
  const auto parsed = parse_command_line({"test-preempt", "-np", "2", "--after", "2m", "--grace",
                                          "90", "--start-limit", "0.5s", "--signal", "TERM", "-x",
                                          "A=b", "--", "prog", "--after", "x"});
  ASSERT_TRUE(parsed.is_ok()) << parsed.status().message();
  const auto& options = std::get<PreemptOptions>(parsed.value());
  EXPECT_EQ(options.after, std::chrono::seconds(120));
  EXPECT_EQ(options.grace, std::chrono::seconds(90));
  EXPECT_EQ(options.start_limit, std::chrono::milliseconds(500));
  EXPECT_EQ(options.signal, SIGTERM);
  EXPECT_EQ(options.run.ranks, 2);
  EXPECT_EQ(options.run.variables.size(), 1U);
  EXPECT_EQ(options.run.command, (std::vector<std::string>{"prog", "--after", "x"}));
  for (const char* wrong : {"", "s", "-1", "nan", "25h", "10 s", "1d", "1e99"}) {
    const auto refused = parse_command_line({"test-preempt", "--after", wrong, "prog"});
    EXPECT_FALSE(refused.is_ok()) << wrong;
  }
}

TEST(Options, ReadsEveryFlag) {
  const RunOptions options =
      parse({"-np",     "4",     "--nodes", "2", "-c",           "3", "--bind",      "cores",
             "-x",      "A=b=c", "-x",      "D", "--output-dir", "o", "--no-prefix", "--timestamp",
             "--grace", "0.5",   "-v",      "p"});
  EXPECT_EQ(options.ranks, 4);
  EXPECT_EQ(options.nodes, 2);
  EXPECT_EQ(options.cpus_per_rank, 3);
  EXPECT_EQ(options.bind.policy, BindPolicy::kCores);
  ASSERT_EQ(options.variables.size(), 2U);
  EXPECT_EQ(options.variables[0].value, "b=c");
  EXPECT_FALSE(options.variables[1].value);
  EXPECT_EQ(options.prefix, false);
  EXPECT_EQ(options.grace, milliseconds(500));
}

}  // namespace
}  // namespace hvd
