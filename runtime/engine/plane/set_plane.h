// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bootstrap/set_wiring.h"
#include "collective/backend.h"
#include "collective/rank_set.h"
#include "engine/options.h"
#include "engine/plane/reduction.h"
#include "transport/doorbell.h"

namespace hvd {

/// The data plane of one process set on a rank that is in it: who is with it, and what moves their
/// bytes. It shares nothing with the planes of other sets, and waits for none of them, but for the
/// order on a GPU (LaunchOrder).
/// Engine thread only, but for what is said to be otherwise.
struct SetPlane {
  SetPlane() = default;
  SetPlane(const SetPlane&) = delete;
  SetPlane& operator=(const SetPlane&) = delete;
  ~SetPlane();

  Communicator communicator;  ///< Backends refer to it. Immutable once the set is formed.
  Doorbell doorbell;          ///< Of the members on this node.
  SetLinks links;
  ArenaView arena;
  std::unique_ptr<Reducer> reduction;
  std::uint64_t batches = 0;    ///< As the log decided on them.
  std::uint64_t schedules = 0;  ///< Times that buckets were frozen.
  /// Requests that were submitted and have not completed. Thread-safe.
  std::atomic<std::size_t> in_flight{0};
  /// Those of them that end by themselves (Pending::ends_by_itself()); not counted for set 0.
  /// Thread-safe.
  std::atomic<std::size_t> unattended{0};
  /// The GPU that the tensors of this rank are on, from the first of them; before that kNoGpu.
  /// Thread-safe.
  std::atomic<std::int32_t> gpu{kNoGpu};
  static constexpr std::int32_t kNoGpu = -1;

  /// Gives each backend of the table its part of `memory`, which is plane_memory_bytes() long.
  void open(std::span<const BackendEntry> table, std::span<std::byte> memory,
            const EngineOptions& options);
};

/// Memory is shared out by pages.
constexpr std::size_t whole_pages(std::size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

/// Bytes of shared memory that the backends want in a node with `local_size` members.
std::size_t plane_memory_bytes(std::span<const BackendEntry> table, int local_size);

/// The communicator of some ranks of the job (ascending), seen by `world.rank`, which is one of
/// them. Its process set has no number yet.
Communicator part_of(const Communicator& world, const std::vector<int>& ranks);

/// Ranks of the job by node of the communicator.
std::vector<std::vector<int>> world_ranks_by_node(const Communicator& communicator);

}  // namespace hvd
