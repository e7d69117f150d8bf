// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/unique_fd.h"
#include "transport/doorbell.h"
#include "transport/life_locks.h"
#include "transport/shared_arena.h"

namespace hvd {

/// The ranks that share memory with this one: what the exchange within a node leaves behind.
///
/// "Same node" means that a memfd could be passed and mapped, not that host names are equal.
/// Immutable after construction, except for the shared memory itself.
struct NodeGroup {
  int local_rank = 0;
  int local_size = 1;
  /// Zeroed at creation, 4096-aligned, mapped by every rank of the group; the first
  /// sleep words are already taken out of it. As long as the caller asked for.
  std::span<std::byte> memory;
  /// What this rank hands out to its user; never null, of no bytes where HVD_ARENA_BYTES is 0.
  std::shared_ptr<SharedArena> arena;
  std::unique_ptr<Doorbell> doorbell;
  /// pidfds of the local ranks (readable once the process has ended); not open for myself, for
  /// ranks that are threads of this process, and where the kernel has no pidfd_open.
  std::vector<UniqueFd> pid_fds;
  /// Locks of the local ranks, for those without a pidfd; not open for threads of this process.
  LifeLocks life_locks;
  /// Keeps `memory` alive: unmaps it, or drops this thread's share of a common mapping.
  std::shared_ptr<void> owner;
};

}  // namespace hvd
