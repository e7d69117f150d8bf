// SPDX-License-Identifier: Apache-2.0
#include "transport/life_locks.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>

namespace hvd {
namespace {

/// A process that does something and then stays until it is killed, by the destructor at the
/// latest.
class Child {
 public:
  explicit Child(const std::function<void()>& begin) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      begin();
      char ready = 1;
      if (::write(ends[1], &ready, 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    ::close(ends[1]);
    char ready = 0;
    EXPECT_EQ(::read(ends[0], &ready, 1), 1);
    ::close(ends[0]);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { kill(); }

  pid_t pid() const { return pid_; }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    EXPECT_EQ(::waitpid(pid_, nullptr, 0), pid_);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
};

TEST(LifeLocks, FreesTheLockOfAProcessThatIsKilled) {
  const auto locks = LifeLocks::create();
  ASSERT_TRUE(locks.is_ok());
  Child one([&] { EXPECT_TRUE(locks.value().lock(1).is_ok()); });
  Child two([&] { EXPECT_TRUE(locks.value().lock(2).is_ok()); });
  EXPECT_FALSE(locks.value().has_ended(1));
  EXPECT_EQ(locks.value().pid_of(1), one.pid());
  one.kill();
  EXPECT_TRUE(locks.value().has_ended(1));
  EXPECT_EQ(locks.value().pid_of(1), 0);
  EXPECT_FALSE(locks.value().has_ended(2));
}

TEST(LifeLocks, AForkedChildDoesNotKeepTheLock) {
  const auto locks = LifeLocks::create();
  ASSERT_TRUE(locks.is_ok());
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  Child parent([&] {
    EXPECT_TRUE(locks.value().lock(1).is_ok());
    if (::fork() != 0) return;
    // A worker of a data loader: it has the descriptor, too, and outlives its parent.
    ::close(ends[1]);
    char end = 0;
    static_cast<void>(::read(ends[0], &end, 1));
    ::_exit(0);
  });
  EXPECT_FALSE(locks.value().has_ended(1));
  parent.kill();
  EXPECT_TRUE(locks.value().has_ended(1));
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(LifeLocks, AForkedChildThatClosesTheFileFreesNothing) {
  const auto locks = LifeLocks::create();
  ASSERT_TRUE(locks.is_ok());
  Child parent([&] {
    EXPECT_TRUE(locks.value().lock(1).is_ok());
    const pid_t worker = ::fork();
    if (worker == 0) {
      ::close(locks.value().fd());
      ::_exit(0);
    }
    EXPECT_EQ(::waitpid(worker, nullptr, 0), worker);
  });
  EXPECT_FALSE(locks.value().has_ended(1));
}

TEST(LifeLocks, AStoppedProcessKeepsItsLock) {
  const auto locks = LifeLocks::create();
  ASSERT_TRUE(locks.is_ok());
  const Child child([&] { EXPECT_TRUE(locks.value().lock(1).is_ok()); });
  ::kill(child.pid(), SIGSTOP);
  int how = 0;
  ASSERT_EQ(::waitpid(child.pid(), &how, WUNTRACED), child.pid());
  EXPECT_FALSE(locks.value().has_ended(1));
}

TEST(LifeLocks, AreSeenFromAnotherPidNameSpace) {
  constexpr int kCannot = 77;
  const auto locks = LifeLocks::create();
  ASSERT_TRUE(locks.is_ok());
  ASSERT_TRUE(locks.value().lock(0).is_ok());
  const pid_t outside = ::fork();
  if (outside == 0) {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) ::_exit(kCannot);
    const pid_t inside = ::fork();
    if (inside == 0) {
      const bool sees = !locks.value().has_ended(0) && locks.value().has_ended(1);
      ::_exit(sees && locks.value().pid_of(0) == 0 ? 0 : 1);
    }
    int how = 0;
    if (inside < 0 || ::waitpid(inside, &how, 0) != inside) ::_exit(kCannot);
    ::_exit(WEXITSTATUS(how));
  }
  int how = 0;
  ASSERT_EQ(::waitpid(outside, &how, 0), outside);
  ASSERT_TRUE(WIFEXITED(how));
  if (WEXITSTATUS(how) == kCannot) GTEST_SKIP() << "no PID name spaces for this user";
  EXPECT_EQ(WEXITSTATUS(how), 0);
}

TEST(LifeLocks, WithoutAFileSeeNobodyEnd) {
  const LifeLocks none;
  EXPECT_FALSE(none.is_open());
  EXPECT_FALSE(none.has_ended(1));
  EXPECT_EQ(none.pid_of(1), 0);
}

}  // namespace
}  // namespace hvd
