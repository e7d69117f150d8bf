// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"

namespace hvd {

/// How many files this process may have open, and has.
struct DescriptorLimit {
  std::size_t soft = 0;
  std::size_t hard = 0;
  std::size_t open = 0;
};

/// The soft limit that leaves room for `more` descriptors: that of now where it is enough, else
/// more than is asked for, within the hard limit. kSystem where the hard limit is too low.
Result<std::size_t> choose_soft_limit(const DescriptorLimit& now, std::size_t more);

DescriptorLimit descriptor_limit();
/// Raises the soft limit of open files (RLIMIT_NOFILE) where `more` descriptors do not fit below
/// it. Programs that are started later inherit it. Thread-safe.
Status reserve_descriptors(std::size_t more);
/// "60 of 64 files are open; raise the limit (...)", for an error message.
std::string describe_descriptor_limit();

}  // namespace hvd
