// SPDX-License-Identifier: Apache-2.0
#include "launcher/cluster/capture.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace hvd {
namespace {

TEST(Capture, GivesOutputErrorsAndEnd) {
  const Environment environment = Environment::of_process();
  const Deadline soon = Deadline::after(std::chrono::seconds(20));
  const auto captured = capture({"sh", "-c", "echo out; echo err >&2; exit 3"}, environment, soon);
  ASSERT_TRUE(captured.is_ok()) << captured.status().message();
  EXPECT_EQ(captured.value().output, "out\n");
  EXPECT_EQ(captured.value().errors, "err\n");
  EXPECT_FALSE(captured.value().succeeded());
  EXPECT_EQ(capture({"no-such-program"}, environment, soon).status().code(), Code::kUnsupported);
}

TEST(Capture, KillsWhatDoesNotEndInTime) {
  const auto captured = capture({"sleep", "60"}, Environment::of_process(),
                                Deadline::after(std::chrono::milliseconds(50)));
  EXPECT_EQ(captured.status().code(), Code::kTimeout);
}

TEST(CaptureCall, GivesWhatAFunctionWritesInAProcessOfItsOwn) {
  const Deadline soon = Deadline::after(std::chrono::seconds(20));
  int here = 0;
  const auto captured = capture_call(
      "lib",
      [&here](std::FILE* out) {
        here = 1;
        std::fputs("answer\n", out);
        std::fputs("a line of the library's own\n", stdout);
        std::fputs("first\nwhy \n", stderr);
        (void)std::fflush(stdout);
        return 4;
      },
      soon);
  ASSERT_TRUE(captured.is_ok()) << captured.status().message();
  EXPECT_EQ(here, 0);
  EXPECT_EQ(captured.value().output, "answer\n");
  EXPECT_FALSE(captured.value().succeeded());
  EXPECT_EQ(captured.value().last_words(), "why");
}

TEST(CaptureCall, OutlivesAFunctionThatEndsItsProcess) {
  const auto captured = capture_call(
      "lib", [](std::FILE*) -> int { std::_Exit(7); }, Deadline::after(std::chrono::seconds(20)));
  ASSERT_TRUE(captured.is_ok()) << captured.status().message();
  EXPECT_EQ(captured.value().last_words(), "exit code 7");
}

TEST(CaptureCall, KillsWhatDoesNotReturnInTime) {
  const auto captured = capture_call(
      "lib", [](std::FILE*) { return ::pause(); }, Deadline::after(std::chrono::milliseconds(50)));
  EXPECT_EQ(captured.status().code(), Code::kTimeout);
  EXPECT_EQ(captured.status().message(), "lib gave no answer in time");
}

}  // namespace
}  // namespace hvd
