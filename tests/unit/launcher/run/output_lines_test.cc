// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/output_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "launcher/run/output_printer.h"

namespace hvd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string printed(const std::vector<OutputLine>& lines) {
  return OutputPrinter(OutputStyle{}).print(0, lines, Clock::now());
}
std::string feed(OutputLines& lines, std::string_view bytes) { return printed(lines.feed(bytes)); }
std::string finish(OutputLines& lines) { return printed(lines.finish()); }

TEST(OutputLines, KeepsLinesWholeAndPrefixesEach) {
  OutputLines lines(3, OutputStyle{});
  EXPECT_EQ(feed(lines, "ab"), "");
  EXPECT_EQ(feed(lines, "c\nd\ne"), "[3] abc\n[3] d\n");
  EXPECT_EQ(finish(lines), "[3] e\n");
  EXPECT_THAT(lines.last_lines(3), ElementsAre("abc", "d", "e"));
}

TEST(OutputLines, ShowsAProgressBarAtOnce) {
  OutputLines lines(0, OutputStyle{});
  EXPECT_EQ(feed(lines, "10%\r20%\r\nx"), "[0] 10%\r[0] 20%\r\n");
  EXPECT_EQ(feed(lines, "y\r"), "");
  EXPECT_EQ(feed(lines, "\n"), "[0] xy\r\n");
}

TEST(OutputLines, CutsEndlessLinesAndRemembersTheLastTen) {
  OutputLines lines(0, OutputStyle{});
  EXPECT_THAT(feed(lines, std::string(70'000, 'x')), HasSubstr("[0] xxx"));
  for (int i = 0; i < 20; ++i) (void)feed(lines, std::to_string(i) + "\n");
  EXPECT_EQ(lines.last_lines(0).size(), 10U);
  EXPECT_EQ(lines.last_lines(0).front(), "10");
}

TEST(OutputLines, EndsEachPieceOfALineThatItCuts) {
  OutputLines lines(3, OutputStyle{});
  EXPECT_EQ(feed(lines, std::string(70'000, 'x')), "[3] " + std::string(70'000, 'x') + "\n");
  EXPECT_EQ(feed(lines, "rest\nnext\n"), "[3] rest\n[3] next\n");
  OutputLines tasks(kNoRank, OutputStyle{.from_srun = true});
  EXPECT_THAT(feed(tasks, "2: " + std::string(70'000, 'x')), HasSubstr("[2] xxx"));
  EXPECT_EQ(feed(tasks, "7: of the line\n1: next\n"), "[2] 7: of the line\n[1] next\n");
}

TEST(OutputLines, CutsNoCharacterInTwo) {
  const std::string euro = "\xE2\x82\xAC";
  OutputLines lines(0, OutputStyle{});
  EXPECT_EQ(feed(lines, std::string((64 << 10) - 1, 'x') + euro.substr(0, 2)),
            "[0] " + std::string((64 << 10) - 1, 'x') + "\n");
  EXPECT_EQ(feed(lines, euro.substr(2) + "\n"), "[0] " + euro + "\n");
  (void)feed(lines, std::string(499, 'y') + euro + "\n");
  EXPECT_EQ(lines.last_lines(0).back(), std::string(499, 'y'));
  (void)feed(lines, std::string(498, 'y') + "\xF0\x9F\x98\x80\n");
  EXPECT_EQ(lines.last_lines(0).back(), std::string(498, 'y'));
  (void)feed(lines, std::string(497, 'y') + euro + "z\n");
  EXPECT_EQ(lines.last_lines(0).back(), std::string(497, 'y') + euro);
  (void)feed(lines, std::string(600, '\x80') + "\n");
  EXPECT_EQ(lines.last_lines(0).back(), std::string(500, '\x80')) << "not UTF-8";
  (void)lines.feed("a" + euro.substr(0, 1));
  EXPECT_EQ(lines.take_open().front().text, "a");
  EXPECT_TRUE(lines.take_open().empty());
  EXPECT_EQ(lines.feed(euro.substr(1) + "\n").front().text, euro + "\n");
}

TEST(OutputLines, PassesBytesWithoutPrefix) {
  OutputLines lines(0, OutputStyle{.prefix = false});
  const std::vector<OutputLine> passed = lines.feed("a\rb");
  ASSERT_EQ(passed.size(), 1U);
  EXPECT_EQ(passed[0].text, "a\rb");
  EXPECT_TRUE(lines.finish().empty());
  EXPECT_THAT(lines.last_lines(0), ElementsAre("a", "b"));
}

TEST(OutputLines, TurnsSrunsLabelsIntoPrefixes) {
  OutputLines lines(kNoRank, OutputStyle{.from_srun = true});
  EXPECT_EQ(feed(lines, " 3: hi\n12: yo\nsrun: error: jz1: task 2: Killed\n0: hvdrun-step 5.1\n"),
            "[3] hi\n[12] yo\nsrun: error: jz1: task 2: Killed\n");
  const std::vector<SrunNotice> notices = lines.take_notices();
  ASSERT_EQ(notices.size(), 2U);
  EXPECT_EQ(notices[0].text, "srun: error: jz1: task 2: Killed");
  EXPECT_EQ(notices[1].text, "hvdrun-step 5.1");
  EXPECT_THAT(lines.last_lines(3), ElementsAre("hi"));
  const std::vector<TaskLine> written = lines.take_task_lines();
  ASSERT_EQ(written.size(), 2U);
  EXPECT_EQ(written[1].rank, 12);
  EXPECT_EQ(written[1].text, "yo\n");
}

TEST(OutputLines, NumbersTheTasksOfALaterStepBehindTheOthers) {
  OutputLines lines(kNoRank, OutputStyle{.from_srun = true, .first_task = 6});
  EXPECT_EQ(feed(lines, "0: hi\n1: yo\n"), "[6] hi\n[7] yo\n");
  EXPECT_THAT(lines.last_lines(7), ElementsAre("yo"));
  EXPECT_EQ(feed(lines, "srun: error: jz1: task 0: Killed\n"),
            "srun: error: jz1: task 0: Killed\n");
  EXPECT_EQ(lines.take_notices().at(0).first_process, 6);
}

TEST(OutputLines, GivesOutALineThatIsNotAtItsEnd) {
  OutputLines lines(0, OutputStyle{});
  EXPECT_FALSE(lines.has_open());
  EXPECT_TRUE(lines.feed("(Pd").empty());
  EXPECT_TRUE(lines.has_open());
  std::vector<OutputLine> open = lines.take_open();
  ASSERT_EQ(open.size(), 1U);
  EXPECT_EQ(open[0].text, "(Pd");
  EXPECT_FALSE(open[0].continues);
  EXPECT_TRUE(open[0].is_open);
  EXPECT_FALSE(lines.has_open());
  EXPECT_TRUE(lines.take_open().empty());
  EXPECT_TRUE(lines.feed("b) ").empty());
  open = lines.take_open();
  ASSERT_EQ(open.size(), 1U);
  EXPECT_EQ(open[0].text, "b) ");
  EXPECT_TRUE(open[0].continues);
  const std::vector<OutputLine> rest = lines.feed("3\nnext\n");
  ASSERT_EQ(rest.size(), 2U);
  EXPECT_EQ(rest[0].text, "3\n");
  EXPECT_TRUE(rest[0].continues);
  EXPECT_FALSE(rest[1].continues);
  EXPECT_THAT(lines.last_lines(0), ElementsAre("(Pdb) 3", "next"));
}

}  // namespace
}  // namespace hvd
