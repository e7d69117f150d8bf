// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"

namespace hvd {

/// A small key-value store that all ranks of a job reach before they know each other.
/// Keys are written once, by one rank. Values may hold any byte, at most 1 MiB.
/// Thread-safe.
class Store {
 public:
  virtual ~Store() = default;
  /// "tcp", "file", "pmi2", "pmix", "memory": as printed in logs.
  virtual std::string_view name() const = 0;
  virtual Status set(std::string_view key, std::string_view value, Deadline deadline) = 0;
  /// Waits until the key exists. kTimeout names the key; kPeerLost when the store is gone.
  virtual Result<std::string> wait(std::string_view key, Deadline deadline) = 0;

  /// Every rank gives one value and receives all, by rank. `round` is unique per use of the store.
  /// On a timeout the message names the ranks that did not write. The default writes
  /// "round/rank" keys and waits for each; PMI-2 and PMIx override it with their fence.
  virtual Result<std::vector<std::string>> allgather(std::string_view round, int rank, int size,
                                                     std::string_view value, Deadline deadline);
};

/// "rank 3", "ranks 1, 2, 5", at most eight by number.
std::string name_ranks(std::span<const int> ranks);

}  // namespace hvd
