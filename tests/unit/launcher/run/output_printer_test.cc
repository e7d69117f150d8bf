// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/output_printer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hvd {
namespace {

using std::chrono::milliseconds;

const Clock::time_point kStart = Clock::time_point() + std::chrono::hours(1);

OutputLine line(int rank, const std::string& text) { return {rank, text, false, false}; }

/// Four ranks whose streams have their numbers.
class FoldingPrinter {
 public:
  std::string say(int rank, const std::string& text, int ms) {
    return printer_.print(rank, {line(rank, text)}, kStart + milliseconds(ms));
  }
  std::string advance(int ms) { return printer_.advance(kStart + milliseconds(ms)); }
  OutputPrinter& printer() { return printer_; }

 private:
  OutputPrinter printer_{OutputStyle{.folded_ranks = 4}};
};

TEST(OutputPrinter, ShowsALineOfAllRanksOnceAndAtOnce) {
  FoldingPrinter ranks;
  EXPECT_EQ(ranks.say(2, "hi\n", 0), "");
  EXPECT_EQ(ranks.say(0, "hi\n", 1), "");
  EXPECT_EQ(ranks.say(3, "hi\n", 2), "");
  EXPECT_EQ(ranks.say(1, "hi\n", 3), "[0-3] hi\n");
  EXPECT_TRUE(ranks.printer().next().is_forever());
}

TEST(OutputPrinter, WaitsAShortTimeForTheOthers) {
  FoldingPrinter ranks;
  EXPECT_EQ(ranks.say(3, "hi\n", 0), "");
  EXPECT_EQ(ranks.say(1, "hi\n", 50), "");
  EXPECT_EQ(ranks.say(0, "alone\n", 60), "");
  EXPECT_EQ(ranks.printer().next().time(), kStart + milliseconds(100));
  EXPECT_EQ(ranks.advance(99), "");
  EXPECT_EQ(ranks.advance(100), "[1,3] hi\n");
  EXPECT_EQ(ranks.say(2, "hi\n", 110), "");
  EXPECT_EQ(ranks.advance(160), "[0] alone\n");
  EXPECT_EQ(ranks.advance(300), "[2] hi\n");
}

TEST(OutputPrinter, KeepsTheLinesOfEachRankInOrder) {
  FoldingPrinter ranks;
  EXPECT_EQ(ranks.say(0, "a\n", 0), "");
  EXPECT_EQ(ranks.say(0, "b\n", 0), "");
  EXPECT_EQ(ranks.say(1, "b\n", 1), "");
  EXPECT_EQ(ranks.say(1, "a\n", 2), "") << "after its b: not the a of rank 0";
  EXPECT_EQ(ranks.say(1, "a\n", 3), "") << "twice is twice";
  EXPECT_EQ(ranks.advance(500), "[0] a\n[0-1] b\n[1] a\n[1] a\n");
}

TEST(OutputPrinter, KeepsFewLinesBack) {
  FoldingPrinter ranks;
  std::string shown;
  for (int i = 0; i < 1000; ++i) shown += ranks.say(0, std::to_string(i) + "\n", 0);
  EXPECT_EQ(shown.substr(0, 8), "[0] 0\n[0");
  EXPECT_GT(shown.size(), 5000U);
}

TEST(OutputPrinter, PutsAMessageAfterWhatCameBefore) {
  FoldingPrinter ranks;
  EXPECT_EQ(ranks.say(0, "hi\n", 0), "");
  EXPECT_EQ(ranks.printer().print_message("hvdrun: x\n"), "[0] hi\nhvdrun: x\n");
}

TEST(OutputPrinter, EndsAPromptBeforeOthersWrite) {
  OutputPrinter printer{OutputStyle{}};
  const OutputLine prompt{0, "(Pdb) ", false, true};
  EXPECT_EQ(printer.print(0, {prompt}, kStart), "[0] (Pdb) ");
  EXPECT_EQ(printer.print(2, {line(1, "hi\n")}, kStart), "\n[1] hi\n");
  EXPECT_EQ(printer.print(0, {{0, "3\n", true, false}}, kStart), "[0] 3\n");
  EXPECT_EQ(printer.print(0, {prompt}, kStart), "[0] (Pdb) ");
  EXPECT_EQ(printer.print_message("hvdrun: x\n"), "\nhvdrun: x\n");
  EXPECT_EQ(printer.print(0, {{0, "\n", true, false}}, kStart), "") << "it was ended";
}

TEST(OutputPrinter, GoesOnWithALineThatNobodyInterrupted) {
  OutputPrinter printer{OutputStyle{}};
  EXPECT_EQ(printer.print(0, {{0, "loading", false, true}}, kStart), "[0] loading");
  EXPECT_EQ(printer.print(0, {{0, "...", true, true}}, kStart), "...");
  EXPECT_EQ(printer.print(0, {{0, " done\n", true, false}}, kStart), " done\n");
  EXPECT_EQ(printer.print(0, {line(0, "next\n")}, kStart), "[0] next\n");
}

TEST(OutputPrinter, PutsMessagesOnLinesOfTheirOwnAmongRawBytes) {
  OutputPrinter printer{OutputStyle{.prefix = false}};
  EXPECT_EQ(printer.print(0, {line(0, "name? ")}, kStart), "name? ");
  EXPECT_EQ(printer.print(1, {line(0, "b")}, kStart), "b");
  EXPECT_EQ(printer.print_message("hvdrun: x\n"), "\nhvdrun: x\n");
  EXPECT_EQ(printer.print_message("hvdrun: y\n"), "hvdrun: y\n");
}

TEST(OutputPrinter, CountsWhatARankHasJustShown) {
  OutputPrinter printer{OutputStyle{}};
  for (int i = 0; i < 3; ++i) (void)printer.print(1, {line(0, "a\n"), line(0, "\n")}, kStart);
  EXPECT_EQ(printer.recent(1, 0), 3U);
  for (int i = 0; i < 18; ++i) (void)printer.print(3, {line(1, "b\n")}, kStart);
  EXPECT_EQ(printer.recent(1, 0), 2U);
  EXPECT_EQ(printer.recent(3, 1), 18U);
}

}  // namespace
}  // namespace hvd
