// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "base/unique_fd.h"

namespace hvd {

/// One rank's wake-up word in shared memory; a cache line of its own.
struct alignas(64) SleepWord {
  std::atomic<std::uint32_t> asleep{0};
};

/// Wakes the ranks of a node. Each rank has an eventfd (its bell) and a SleepWord.
///
/// Protocol, as Dekker's: a writer publishes with a seq_cst store, then calls ring(), which loads
/// the peer's word seq_cst and writes to its eventfd only when it is set. A sleeper sets its word
/// with a seq_cst store, looks once more for work, and only then sleeps in epoll_wait.
/// Thread-safe.
class Doorbell {
 public:
  Doorbell() = default;
  /// `words` and `bells` have one entry per local rank; words outlive the doorbell.
  Doorbell(std::span<SleepWord> words, std::vector<UniqueFd> bells, int local_rank);
  /// The same bells, seen by a part of the node: `local_ranks` are ranks of this doorbell, mine
  /// among them, and the result counts from 0. Lives no longer than this one.
  Doorbell among(std::span<const int> local_ranks) const;

  /// Wakes `local_rank` if it sleeps. Call after a seq_cst store.
  void ring(int local_rank) const;
  /// Wakes every other rank of the node that sleeps.
  void ring_others() const;
  /// Wakes every other rank of the node, asleep or not.
  void wake_others() const;
  /// Wakes my own engine thread, asleep or not.
  void ring_self() const;

  void set_asleep(bool asleep);
  bool is_asleep() const;
  /// My bell: readable after a ring. drain() makes it quiet again.
  int fd() const { return bells_[static_cast<std::size_t>(local_rank_)].fd; }
  void drain() const;

 private:
  struct Bell {
    SleepWord* word = nullptr;
    int fd = -1;
  };
  std::vector<Bell> bells_;  ///< By local rank.
  std::vector<UniqueFd> owned_;
  int local_rank_ = 0;
};

}  // namespace hvd
