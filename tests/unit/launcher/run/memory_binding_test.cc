// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/memory_binding.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

namespace hvd {
namespace {

struct Policy {
  int mode = -1;
  unsigned long nodes = 0;
};

Policy policy_of_thread() {
  Policy policy;
  std::array<unsigned long, 16> mask{};
  const long failed =
      ::syscall(SYS_get_mempolicy, &policy.mode, mask.data(), 8 * sizeof mask, nullptr, 0);
  if (failed != 0) policy.mode = -errno;
  policy.nodes = mask[0];
  return policy;
}

TEST(MemoryBinding, PrefersANodeAndForcesNothing) {
  Status preferred = Status::ok();
  Policy policy;
  int refused = 0;
  // The policy is a thread's own: this one takes it with it.
  std::thread([&] {
    if (::syscall(SYS_set_mempolicy, 0, nullptr, 0) != 0) refused = errno;
    preferred = prefer_memory_of({0});
    policy = policy_of_thread();
  }).join();
  if (refused != 0) GTEST_SKIP() << "no memory policies here: " << std::strerror(refused);
  EXPECT_TRUE(preferred.is_ok()) << preferred.message();
  EXPECT_TRUE(policy.mode == 1 || policy.mode == 5) << policy.mode;
  EXPECT_EQ(policy.nodes, 1U);
  EXPECT_EQ(policy_of_thread().mode, 0);
}

TEST(MemoryBinding, RefusesNodesThatCannotBe) {
  EXPECT_EQ(prefer_memory_of({-1}).code(), Code::kInvalidArgument);
  EXPECT_EQ(prefer_memory_of({5000}).code(), Code::kInvalidArgument);
  // A number that the kernel knows of and this machine does not have.
  EXPECT_FALSE(prefer_memory_of({1000}).is_ok());
}

}  // namespace
}  // namespace hvd
