// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "base/deadline.h"
#include "base/environment.h"
#include "base/result.h"
#include "bootstrap/meeting_settings.h"
#include "bootstrap/wiring.h"

namespace hvd {

struct KeptMeeting;

struct BootstrapOptions {
  /// Until when the ranks wait for each other; unset: settings.start_timeout from now.
  std::optional<Deadline> deadline = std::nullopt;
  /// Bytes of NodeGroup::memory for a node of `local_size` ranks; the same on every rank.
  std::function<std::size_t(int local_size)> memory_bytes = [](int) { return std::size_t{0}; };
  MeetingSettings settings = {};
  std::size_t arena_bytes = 0;  ///< Of each rank's NodeGroup::arena; the same on every rank.
  /// What this rank has of MPI, as the MPI plane writes it; every rank learns it (PeerInfo::mpi).
  std::string mpi = {};
  /// Of this process, for programs that start more than once; null: this is the only start.
  KeptMeeting* kept = nullptr;
};

/// Finds the other ranks of the job and connects this one to them.
///
/// Tries the methods of method.h in order; a process that no launcher made a rank becomes a world
/// of one, but a batch or salloc shell is refused. Blocks. Every rank of the job must call it.
/// A failure names rank, host, what and a remedy. Thread-safe.
Result<Wiring> bootstrap(const Environment& environment, const BootstrapOptions& options);

}  // namespace hvd
