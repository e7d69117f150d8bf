// SPDX-License-Identifier: Apache-2.0
#include "transport/fd_passing.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>

#include "socket_pair.h"

namespace hvd {
namespace {

Deadline in_time() { return Deadline::after(std::chrono::seconds(20)); }

std::vector<UniqueFd> opened(std::size_t count) {
  std::vector<UniqueFd> files;
  for (std::size_t i = 0; i < count; ++i) {
    files.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  return files;
}

std::vector<int> numbers(const std::vector<UniqueFd>& files) {
  std::vector<int> found;
  for (const UniqueFd& file : files) found.push_back(file.get());
  return found;
}

TEST(FdPassing, BringsAsManyAsAreSent) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{300}}) {
    const auto [here, there] = socket_pair();
    const auto files = opened(count);
    ASSERT_TRUE(send_fds(here.get(), numbers(files), in_time()).is_ok());
    const auto got = receive_fds(there.get(), count, in_time());
    ASSERT_TRUE(got.is_ok()) << got.status().message();
    ASSERT_EQ(got.value().size(), count);
    for (const UniqueFd& file : got.value()) {
      struct stat facts {};
      EXPECT_EQ(::fstat(file.get(), &facts), 0);
      EXPECT_TRUE(S_ISCHR(facts.st_mode));
      EXPECT_NE(::fcntl(file.get(), F_GETFD) & FD_CLOEXEC, 0);
    }
  }
}

TEST(FdPassing, RefusesMoreThanAreWanted) {
  const auto [here, there] = socket_pair();
  const auto files = opened(3);
  ASSERT_TRUE(send_fds(here.get(), numbers(files), in_time()).is_ok());
  const auto got = receive_fds(there.get(), 2, in_time());
  EXPECT_EQ(got.status().code(), Code::kInternal);
  EXPECT_EQ(got.status().message(), "a local rank passed 3 descriptors instead of 2");
}

TEST(FdPassing, RefusesAMessageWithoutOne) {
  const auto [here, there] = socket_pair();
  ASSERT_EQ(::write(here.get(), "x", 1), 1);
  const auto got = receive_fds(there.get(), 2, in_time());
  EXPECT_EQ(got.status().message(), "a local rank passed 0 descriptors instead of 2");
}

TEST(FdPassing, SaysThatThePeerHasGone) {
  auto [here, there] = socket_pair();
  here.reset();
  EXPECT_EQ(receive_fds(there.get(), 1, in_time()).status().code(), Code::kPeerLost);
}

TEST(FdPassing, EndsAtItsDeadline) {
  const auto [here, there] = socket_pair();
  const auto got = receive_fds(there.get(), 1, Deadline::after(std::chrono::milliseconds(20)));
  EXPECT_EQ(got.status().code(), Code::kTimeout);
}

}  // namespace
}  // namespace hvd
