// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/memory_binding.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

namespace hvd {
namespace {

// <linux/mempolicy.h>; the second is newer than the headers of some distributions.
constexpr int kPreferred = 1;
constexpr int kPreferredMany = 5;
constexpr std::size_t kBits = sizeof(unsigned long) * CHAR_BIT;
constexpr std::size_t kMaxNodes = 1024;  // What the kernel is built for at most.

}  // namespace

Status prefer_memory_of(const std::vector<int>& numas) {
  std::vector<unsigned long> mask(kMaxNodes / kBits, 0);
  for (const int numa : numas) {
    const auto bit = static_cast<std::size_t>(numa);
    if (numa < 0 || bit >= kMaxNodes) {
      return error(Code::kInvalidArgument, "there is no NUMA node {}", numa);
    }
    mask[bit / kBits] |= 1UL << (bit % kBits);
  }
  // The kernel takes one bit less than it is told.
  const auto set = [&](int mode) {
    return ::syscall(SYS_set_mempolicy, mode, mask.data(), kMaxNodes + 1);
  };
  if (set(kPreferredMany) == 0) return Status::ok();
  if (errno != EINVAL) return Status::system("set_mempolicy", errno);
  if (numas.size() > 1) {
    return error(Code::kUnsupported, "this kernel prefers one NUMA node at most");
  }
  return set(kPreferred) == 0 ? Status::ok() : Status::system("set_mempolicy", errno);
}

}  // namespace hvd
