// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/environment.h"
#include "base/result.h"
#include "bootstrap/meeting_settings.h"
#include "engine/engine.h"
#include "hvd/hvd.h"

namespace hvd {

/// What hvd_init() was asked for, by its argument, else by the environment, else by default.
struct Settings {
  EngineOptions engine;
  MeetingSettings meeting;
  std::string mpi_library;                          ///< HVD_MPI_LIBRARY; empty: one is found.
  std::size_t arena_bytes = std::size_t{32} << 30;  ///< HVD_ARENA_BYTES: addresses, not memory.
  std::vector<std::vector<int>> process_sets;       ///< To begin with, beside that of all ranks.
  std::string notice;  ///< What rank 0 tells the user about them; empty: nothing.
};

/// The options of hvd_init(), over what base/settings.h lists for libhvd. A value that is not a
/// number in range: kInvalidArgument that names variable, value and range. Pure.
Result<Settings> settings_from(const Environment& environment, const hvd_init_options* given);

/// The deadline of a timeout argument: negative, or longer than any job, is no limit.
Deadline deadline_after(double timeout_seconds);

}  // namespace hvd
