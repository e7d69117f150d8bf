// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/deadline.h"

namespace hvd {

/// Counts the processes that the kernel has killed for lack of memory, in our control group and on
/// this host, to tell such an end from another SIGKILL. Not thread-safe.
class MemoryEvents {
 public:
  /// Counts from now on. `root`: before "/proc" and "/sys", for tests.
  explicit MemoryEvents(std::string root = "");

  /// Counts again when it is time to: kills of long ago, on the host also of others, explain
  /// nothing.
  void advance(Clock::time_point now);
  Deadline next() const { return Deadline::at(counted_ + kGap); }
  /// ", probably out of memory: ..." where the kernel has killed within the last two gaps, and
  /// since the last call; else empty.
  std::string explain_kill();

 private:
  struct Group {
    std::string folder;  ///< Empty: none is known.
    bool is_first_version = false;
  };
  struct Counts {
    std::optional<std::uint64_t> group;
    std::optional<std::uint64_t> host;
  };
  Group find_group() const;
  Counts count() const;
  std::string describe_limit() const;

  std::string root_;
  Group group_;
  /// A large process dies slowly: its end is heard of when the kill may be a count old.
  static constexpr std::chrono::seconds kGap{5};
  Counts before_;
  Counts last_;
  Clock::time_point counted_ = Clock::now();
};

}  // namespace hvd
