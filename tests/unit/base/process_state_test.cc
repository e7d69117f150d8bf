// SPDX-License-Identifier: Apache-2.0
#include "base/process_state.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "base/unique_fd.h"

namespace hvd {
namespace {

TEST(ProcessState, IsReadBehindTheName) {
  const std::string rest = " 34 12 12 0 -1 5 6 7 8 9 10 11 12 13 14 15 16 17 5678";
  const auto plain = parse_stat("12 (python3) S" + rest + " 19 20\n");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->state, 'S');
  EXPECT_EQ(plain->parent, 34);
  EXPECT_EQ(plain->start, 5678U);
  const auto odd = parse_stat("12 (a) T (b)) T" + rest);
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->state, 'T');
  EXPECT_EQ(odd->parent, 34);
  EXPECT_EQ(odd->start, 5678U);
  EXPECT_FALSE(parse_stat("12 (python3) S" + rest.substr(0, rest.rfind(' '))));
  EXPECT_FALSE(parse_stat("12 (python3) "));
  EXPECT_FALSE(parse_stat("12 python3 S" + rest));
  EXPECT_FALSE(parse_stat(""));
}

TEST(ProcessState, SaysWhoIsStopped) {
  EXPECT_NE(describe_stop('T').find("signal"), std::string_view::npos);
  EXPECT_NE(describe_stop('t').find("debugger"), std::string_view::npos);
  EXPECT_TRUE(describe_stop('S').empty());
  EXPECT_TRUE(describe_stop('D').empty());
}

TEST(ProcessState, OfAStoppedChild) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::raise(SIGSTOP);
    ::_exit(0);
  }
  const UniqueFd pid_fd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  int how = 0;
  ASSERT_EQ(::waitpid(child, &how, WUNTRACED), child);
  const auto stopped = state_of_process(pid_fd.get());
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, &how, 0), child);
  EXPECT_EQ(state_of_process(pid_fd.get()), std::nullopt);
  if (!pid_fd.is_open()) GTEST_SKIP() << "this kernel, or a seccomp profile, has no pidfd_open";
  EXPECT_EQ(stopped, 'T');
}

}  // namespace
}  // namespace hvd
