// SPDX-License-Identifier: Apache-2.0
#include "launcher/console/message.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/unique_fd.h"
#include "launcher/options/command_line.h"
#include "launcher/options/version.h"

namespace hvd {
namespace {

using testing::HasSubstr;

Environment terminal(const char* kind) {
  Environment environment;
  environment.set("TERM", kind);
  return environment;
}

TEST(Message, BeginsWithTheNameAndKeepsHintsApart) {
  EXPECT_EQ(message_text("it broke\nhint: mend it", false), "hvdrun: it broke\nhint: mend it\n");
  EXPECT_EQ(message_text("it broke\nhint: mend it", true),
            "\x1b[1;31mhvdrun:\x1b[0m it broke\n\x1b[36mhint:\x1b[0m mend it\n");
}

TEST(Message, IsColouredOnATerminalOnly) {
  const UniqueFd file(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  EXPECT_FALSE(wants_color(file.get(), terminal("xterm")));
  const UniqueFd pseudoterminal(::open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (pseudoterminal.get() < 0) GTEST_SKIP() << "no pseudoterminals here";
  EXPECT_TRUE(wants_color(pseudoterminal.get(), terminal("xterm")));
  EXPECT_FALSE(wants_color(pseudoterminal.get(), terminal("dumb")));
  Environment plain = terminal("xterm");
  plain.set("NO_COLOR", "");  // no-color.org: only where it is not empty
  EXPECT_TRUE(wants_color(pseudoterminal.get(), plain));
  plain.set("NO_COLOR", "1");
  EXPECT_FALSE(wants_color(pseudoterminal.get(), plain));
}

TEST(Message, HelpHasBoldHeadings) {
  EXPECT_EQ(help_with_headings("Usage: x\n\nRanks:\n  -n N:\n"),
            "Usage: x\n\n\x1b[1mRanks:\x1b[0m\n  -n N:\n");
}

TEST(Version, IsAskedForInTwoWays) {
  for (const char* flag : {"-V", "--version"}) {
    const Result<CommandLine> parsed = parse_command_line({flag});
    ASSERT_TRUE(parsed.is_ok());
    EXPECT_FALSE(std::get<VersionOptions>(parsed.value()).verbose);
  }
  const Result<CommandLine> parsed = parse_command_line({"--version", "--verbose"});
  ASSERT_TRUE(parsed.is_ok());
  EXPECT_TRUE(std::get<VersionOptions>(parsed.value()).verbose);
  EXPECT_FALSE(std::get<VersionOptions>(parsed.value()).json);
  EXPECT_TRUE(std::get<VersionOptions>(parse_command_line({"--json", "-V"}).value()).json);
  EXPECT_EQ(version_number(), HVD_VERSION);
  EXPECT_FALSE(revision().empty());
}

}  // namespace
}  // namespace hvd
