// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace hvd {

/// Counts the processes that the kernel has killed for lack of memory, in our control group and on
/// this host, to tell such an end from another SIGKILL. Not thread-safe.
class MemoryEvents {
 public:
  /// Counts from now on. `root`: before "/proc" and "/sys", for tests.
  explicit MemoryEvents(std::string root = "");

  /// ", probably out of memory: ..." where the kernel has killed since the last call; else empty.
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
  Counts before_;
};

}  // namespace hvd
