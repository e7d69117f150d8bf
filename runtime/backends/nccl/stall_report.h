// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "collective/communicator.h"

namespace hvd {

/// How many batches each rank of a node has put into its stream, in memory that they share: NCCL's
/// kernels wait for those of all ranks, and cannot say for whose. Thread-safe.
class LaunchBoard {
 public:
  static std::size_t bytes(int local_size) {
    return static_cast<std::size_t>(local_size) * sizeof(Count);
  }
  /// `memory` is zeroed, and bytes() long.
  LaunchBoard(std::span<std::byte> memory, int local_rank);

  void count_mine();
  std::uint64_t count_of(int local_rank) const;

 private:
  struct alignas(64) Count {
    std::atomic<std::uint64_t> batches{0};
  };
  std::span<Count> counts_;
  int local_rank_;
};

/// A batch that does not end.
struct StalledBatch {
  std::uint64_t number = 0;  ///< From 0, of the process set.
  std::string what;          ///< "allreduce(sum) of 4 float32 tensors".
  bool is_launched = false;  ///< By this rank.
  std::chrono::seconds time{0};
};

/// Of the ranks of this node, the first that has put the batch into its stream speaks; a rank that
/// has not does so, too. Pure, but for the board.
bool should_report(const StalledBatch& batch, const LaunchBoard& board, int local_rank);
/// The sentence, with the ranks of this node that have not put the batch into their streams.
std::string stall_text(const StalledBatch& batch, const Communicator& communicator,
                       const LaunchBoard& board);

/// Logs `text`, with what NCCL's RAS says about the other nodes; on a thread of its own, since that
/// takes seconds. `ras`: its address; empty: it is not asked.
void report_stall(std::string text, std::string ras);

}  // namespace hvd
