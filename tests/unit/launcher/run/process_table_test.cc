// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/process_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <set>
#include <string>
#include <vector>

#include "launcher/run/process_tree.h"

namespace hvd {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

/// 10 runs 11 and 12; 11 runs 13, which runs 14; 15 is a zombie of 10.
ProcessTable family() {
  return {{10, {'S', 1, 1}},  {11, {'S', 10, 1}}, {12, {'S', 10, 1}},
          {13, {'S', 11, 1}}, {14, {'S', 13, 1}}, {15, {'Z', 10, 1}}};
}

auto shells(const std::set<pid_t>& pids, bool catches = false) {
  return [pids, catches](pid_t pid) { return ProcessNature{pids.contains(pid), catches}; };
}

TEST(SignalTargets, AProgramGetsTheSignalAlone) {
  EXPECT_THAT(signal_targets(family(), 10, true, shells({})), ElementsAre(10));
}

TEST(SignalTargets, ChildrenOfAShellGetItTooAndNobodyBelowAnotherProgram) {
  EXPECT_THAT(signal_targets(family(), 10, true, shells({10})), UnorderedElementsAre(10, 11, 12));
  EXPECT_THAT(signal_targets(family(), 10, true, shells({10, 11})),
              UnorderedElementsAre(10, 11, 12, 13));
  EXPECT_THAT(signal_targets(family(), 10, true, shells({11})), ElementsAre(10));
}

TEST(SignalTargets, AShellDoesNotDieOfASignalThatItHasNoTrapFor) {
  EXPECT_THAT(signal_targets(family(), 10, false, shells({10})), UnorderedElementsAre(11, 12));
  EXPECT_THAT(signal_targets(family(), 10, false, shells({10}, true)),
              UnorderedElementsAre(10, 11, 12));
  EXPECT_THAT(signal_targets(family(), 14, false, shells({14})), ElementsAre(14));
}

TEST(SignalTargets, AShellIsKnownByItsProgram) {
  for (const char* name : {"/bin/bash", "/usr/bin/dash", "sh", "/bin/ksh93", "/bin/busybox",
                           "/usr/bin/bash (deleted)", "/usr/bin/fish", "/usr/bin/tcsh",
                           "/bin/bsd-csh", "/bin/csh", "/bin/zsh-5.9", "/bin/bash-static"}) {
    EXPECT_TRUE(is_shell(name)) << name;
  }
  for (const char* name : {"", "/usr/bin/python3.12", "/usr/bin/fish-like", "/opt/ssh"}) {
    EXPECT_FALSE(is_shell(name)) << name;
  }
}

TEST(NatureOf, CatchesTheSignalsThatHaveAHandler) {
  const auto before = std::signal(SIGUSR1, [](int) {});
  EXPECT_TRUE(nature_of(::getpid(), SIGUSR1).catches);
  EXPECT_FALSE(nature_of(::getpid(), SIGUSR2).catches);
  (void)std::signal(SIGUSR1, before);
  EXPECT_FALSE(nature_of(::getpid(), SIGUSR1).catches);
}

TEST(Descendants, AreFoundByParentWithoutZombies) {
  EXPECT_THAT(descendants(family(), 10), ElementsAre(11, 12, 13, 14));
  EXPECT_THAT(descendants(family(), 11), ElementsAre(13, 14));
  ProcessTable circle{{20, {'S', 21, 1}}, {21, {'S', 20, 1}}};
  EXPECT_TRUE(descendants(circle, 10).empty());
}

TEST(SignalProcess, SparesAProcessThatHasTheNumberNow) {
  const ProcessTable processes = read_processes();
  ProcessStat other = processes.at(::getpid());
  ++other.start;
  EXPECT_FALSE(signal_process(::getpid(), other, SIGKILL).is_open());
}

TEST(IsAlive, OfTheSameProcessOnlyAndNotOfAZombie) {
  const ProcessStat self = read_processes().at(::getpid());
  EXPECT_TRUE(is_alive(::getpid(), self));
  ProcessStat other = self;
  ++other.start;
  EXPECT_FALSE(is_alive(::getpid(), other));
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  const ProcessStat started = read_processes().at(child);
  EXPECT_TRUE(is_alive(child, started));
  (void)::kill(child, SIGKILL);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(is_alive(child, started));
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(is_alive(child, started));
}

TEST(Marks, AllAreNeededAsWholeEntries) {
  using namespace std::string_literals;
  const std::vector<std::string> marks{"HVD_JOB_MARKER=a", "SLURM_JOB_ID=7"};
  EXPECT_TRUE(has_marks("X=1\0HVD_JOB_MARKER=a\0SLURM_JOB_ID=7\0"s, marks));
  EXPECT_FALSE(has_marks("HVD_JOB_MARKER=a\0SLURM_JOB_ID=77\0"s, marks));
  EXPECT_FALSE(has_marks("HVD_JOB_MARKER=a\0OLD_SLURM_JOB_ID=7\0"s, marks));
  EXPECT_FALSE(has_marks("HVD_JOB_MARKER=a\0"s, {}));
}

}  // namespace
}  // namespace hvd
