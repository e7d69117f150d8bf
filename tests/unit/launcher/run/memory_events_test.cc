// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/memory_events.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace hvd {
namespace {

/// A machine of files below a folder of its own.
class FakeMachine {
 public:
  FakeMachine() { EXPECT_NE(::mkdtemp(root_.data()), nullptr); }
  ~FakeMachine() { std::filesystem::remove_all(root_); }
  FakeMachine(const FakeMachine&) = delete;
  FakeMachine& operator=(const FakeMachine&) = delete;

  const std::string& root() const { return root_; }
  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path where = root_ + path;
    std::filesystem::create_directories(where.parent_path());
    std::ofstream(where) << text;
  }

 private:
  std::string root_ = testing::TempDir() + "/machine.XXXXXX";
};

TEST(MemoryEvents, NamesTheLimitOfAGroupOfTheSecondVersion) {
  const FakeMachine machine;
  machine.write("/proc/self/cgroup", "0::/job_7/step_0\n");
  machine.write("/sys/fs/cgroup/job_7/memory.max", "2147483648\n");
  machine.write("/sys/fs/cgroup/job_7/step_0/memory.max", "max\n");
  const std::string events = "/sys/fs/cgroup/job_7/step_0/memory.events";
  machine.write(events, "low 0\nhigh 0\nmax 9\noom 1\noom_kill 1\noom_group_kill 0\n");
  MemoryEvents memory(machine.root());
  EXPECT_EQ(memory.explain_kill(), "");
  machine.write(events, "low 0\nhigh 0\nmax 9\noom 2\noom_kill 2\noom_group_kill 0\n");
  EXPECT_EQ(memory.explain_kill(),
            ", probably out of memory: cgroup /sys/fs/cgroup/job_7 has a limit of 2.0 GiB");
  EXPECT_EQ(memory.explain_kill(), "") << "that kill was told";
}

TEST(MemoryEvents, NamesTheLimitOfAGroupOfTheFirstVersion) {
  const FakeMachine machine;
  machine.write("/proc/self/cgroup", "5:cpu,cpuacct:/\n4:memory:/here\n0::/\n");
  machine.write("/sys/fs/cgroup/memory/here/memory.limit_in_bytes", "104857600\n");
  machine.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  const std::string control = "/sys/fs/cgroup/memory/here/memory.oom_control";
  machine.write(control, "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n");
  MemoryEvents memory(machine.root());
  machine.write(control, "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
  EXPECT_EQ(memory.explain_kill(),
            ", probably out of memory: cgroup /sys/fs/cgroup/memory/here has a limit of 100 MiB");
}

TEST(MemoryEvents, ReadsTheTopWhereAContainerSeesNoOther) {
  const FakeMachine machine;
  machine.write("/proc/self/cgroup", "0::/kubepods/pod1\n");
  machine.write("/sys/fs/cgroup/memory.max", "1073741824\n");
  machine.write("/sys/fs/cgroup/memory.events", "oom_kill 0\n");
  MemoryEvents memory(machine.root());
  machine.write("/sys/fs/cgroup/memory.events", "oom_kill 3\n");
  EXPECT_EQ(memory.explain_kill(),
            ", probably out of memory: cgroup /sys/fs/cgroup has a limit of 1.0 GiB");
}

TEST(MemoryEvents, KnowsOfAHostThatRanOutOfMemory) {
  const FakeMachine machine;
  machine.write("/proc/vmstat", "nr_free_pages 12\noom_kill 4\n");
  MemoryEvents memory(machine.root());
  EXPECT_EQ(memory.explain_kill(), "");
  machine.write("/proc/vmstat", "nr_free_pages 12\noom_kill 5\n");
  EXPECT_EQ(memory.explain_kill(),
            ", probably out of memory: the kernel has just killed a process of this host for that");
}

TEST(MemoryEvents, ForgetsKillsOfLongAgo) {
  const FakeMachine machine;
  machine.write("/proc/vmstat", "oom_kill 4\n");
  MemoryEvents memory(machine.root());
  const auto after = [start = memory.next().time() - std::chrono::seconds(5)](int seconds) {
    return start + std::chrono::seconds(seconds);
  };
  machine.write("/proc/vmstat", "oom_kill 5\n");
  memory.advance(after(5));
  EXPECT_EQ(memory.next().time(), after(10));
  memory.advance(after(6));
  memory.advance(after(10));
  EXPECT_EQ(memory.explain_kill(), "");
  machine.write("/proc/vmstat", "oom_kill 6\n");
  memory.advance(after(15));
  EXPECT_NE(memory.explain_kill(), "") << "its process may end a moment later";
}

TEST(MemoryEvents, SaysNothingWhereNothingIsCounted) {
  const FakeMachine machine;
  MemoryEvents memory(machine.root());
  EXPECT_EQ(memory.explain_kill(), "");
}

}  // namespace
}  // namespace hvd
