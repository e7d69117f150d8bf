// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/capture.h"

#include <gtest/gtest.h>

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/unique_fd.h"

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

TEST(Capture, KillsWhatLivesOnWithoutItsStreams) {
  const std::vector<std::string> words{"sh", "-c", "exec >&- 2>&-; exec sleep 60"};
  const Clock::time_point begin = Clock::now();
  const auto late =
      capture(words, Environment::of_process(), Deadline::after(std::chrono::milliseconds(300)));
  EXPECT_EQ(late.status().code(), Code::kTimeout);
  const UniqueFd interrupt(::eventfd(1, EFD_CLOEXEC));
  const auto stopped = capture(words, Environment::of_process(), kForever, interrupt.get());
  EXPECT_EQ(stopped.status().code(), Code::kTimeout);
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(20));
}

TEST(Capture, WaitsForNoProcessThatIsLeftBehind) {
  const Deadline soon = Deadline::after(std::chrono::seconds(30));
  const auto quiet =
      capture({"sh", "-c", "echo 7; sleep 40 & exit 0"}, Environment::of_process(), soon);
  ASSERT_TRUE(quiet.is_ok()) << quiet.status().message();
  EXPECT_EQ(quiet.value().output, "7\n");
  EXPECT_TRUE(quiet.value().succeeded());
  const auto loud = capture({"sh", "-c", "echo 7; yes & exit 3"}, Environment::of_process(), soon);
  ASSERT_TRUE(loud.is_ok()) << loud.status().message();
  EXPECT_EQ(loud.value().output.substr(0, 2), "7\n");
  EXPECT_EQ(loud.value().last_words(), "exit code 3");
  const auto big = capture({"sh", "-c", "seq 100000"}, Environment::of_process(), soon);
  ASSERT_TRUE(big.is_ok());
  EXPECT_EQ(big.value().output.substr(big.value().output.size() - 7), "100000\n");
}

TEST(CaptureOutput, GivesTheLastWordsOfAFailure) {
  const Environment environment = Environment::of_process();
  const Deadline soon = Deadline::after(std::chrono::seconds(20));
  EXPECT_EQ(capture_output({"echo", "yes"}, environment, soon).value(), "yes\n");
  EXPECT_EQ(
      capture_output({"sh", "-c", "echo why >&2; exit 1"}, environment, soon).status().message(),
      "sh: why");
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
