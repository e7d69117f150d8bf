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

/// How many batches each rank of a node has begun and put into its stream, in memory that they
/// share: NCCL waits for all ranks, on the host and on the device, and cannot say for whom.
/// Thread-safe.
class LaunchBoard {
 public:
  static std::size_t bytes(int local_size) {
    return static_cast<std::size_t>(local_size) * sizeof(Count);
  }
  /// `memory` is zeroed, and bytes() long.
  LaunchBoard(std::span<std::byte> memory, int local_rank);

  /// This rank has told NCCL of the memory of its next batch, as all ranks do together.
  void count_begun() { ++mine().begun; }
  std::uint64_t begun_by(int local_rank) const { return of(local_rank).begun.load(); }
  /// It has put it into its stream.
  void count_launched() { ++mine().launched; }
  std::uint64_t launched_by(int local_rank) const { return of(local_rank).launched.load(); }

 private:
  struct alignas(64) Count {
    std::atomic<std::uint64_t> begun{0};
    std::atomic<std::uint64_t> launched{0};
  };
  Count& mine() { return counts_[static_cast<std::size_t>(local_rank_)]; }
  const Count& of(int local_rank) const { return counts_[static_cast<std::size_t>(local_rank)]; }
  std::span<Count> counts_;
  int local_rank_;
};

/// A batch that does not end.
struct StalledBatch {
  std::uint64_t number = 0;  ///< From 0, of the process set.
  std::string what;          ///< "allreduce(sum) of 4 float32 tensors".
  enum class Stage {
    kBucket,    ///< The ranks tell NCCL of its memory.
    kGroup,     ///< NCCL takes it up.
    kLaunched,  ///< This rank has put it into its stream.
  };
  Stage stage = Stage::kGroup;
  std::chrono::seconds time{0};
};

/// Of the ranks of this node, the first that has put the batch into its stream speaks; a rank that
/// has not does so, too. Pure, except for the board.
bool should_report(const StalledBatch& batch, const LaunchBoard& board, int local_rank);
/// The sentence, with the ranks of this node that are not as far.
std::string stall_text(const StalledBatch& batch, const Communicator& communicator,
                       const LaunchBoard& board);

/// Logs `text`, with what NCCL's RAS says about the other nodes; on a thread of its own, since that
/// takes seconds. `ras`: its address; empty: it is not asked.
void report_stall(std::string text, std::string ras);

}  // namespace hvd
