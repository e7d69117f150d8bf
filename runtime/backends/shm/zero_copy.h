// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/node/node_plane.h"
#include "collective/backend.h"
#include "collective/batch.h"
#include "collective/reduce.h"

namespace hvd {

/// An allreduce on tensors that lie in the arenas of all local ranks: no slot, no copy.
///
/// The flat stream is cut into one part per rank. Each rank reduces its part straight from the
/// tensors of all, in rank order (the same fold as ReduceStream, so the same bits), and writes the
/// result straight into the outputs of all. Two meetings: all tensors are ready; all parts are
/// written. Peers write into this rank's tensors while it runs, so nobody may take a tensor back
/// before all have stopped: see NodePlane::wait_until_stopped().
/// Engine thread only.
class ZeroCopy {
 public:
  /// True where this rank could: an allreduce whose tensors all lie in its part of the arena and
  /// do not travel as another type.
  static bool is_possible(const ArenaView& arena, const Batch& batch);

  ZeroCopy(NodePlane& plane, const ArenaView& arena, const Batch& batch,
           const Reduction& reduction);

  /// Writes where my tensors are into the slot of `round`, which is free.
  void announce(std::uint64_t round);
  /// Does a chunk of my part, once every rank has announced; then waits for the others.
  Progress advance();

 private:
  struct Place {
    std::uint64_t input;
    std::uint64_t output;
  };

  const Place& place_of(int rank, std::size_t segment) const;
  void reduce_chunk();

  NodePlane& plane_;
  const ArenaView& arena_;
  const Batch& batch_;
  Reduction reduction_;
  std::uint64_t round_ = 0;
  std::vector<std::size_t> segment_begin_;  ///< In elements of the stream; and the end.
  std::size_t next_ = 0;                    ///< Element of the stream that comes next.
  std::size_t end_ = 0;                     ///< End of my part.
  std::size_t segment_ = 0;                 ///< Where next_ lies.
  bool finished_ = false;                   ///< My part.
  std::vector<const void*> sources_;
};

}  // namespace hvd
