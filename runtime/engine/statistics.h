// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace hvd {

/// Counters of an engine since its start.
struct EngineStatistics {
  std::uint64_t batches = 0;
  std::uint64_t requests = 0;
  std::uint64_t bytes = 0;
  std::uint64_t direct = 0;            ///< Requests that needed no negotiation.
  std::uint64_t frozen_buckets = 0;    ///< Runs that were a bucket of a frozen schedule.
  std::uint64_t thaws = 0;             ///< Frozen schedules that something did not fit.
  std::chrono::nanoseconds waited{0};  ///< Time callers spent in wait().
  std::uint64_t in_full = 0;           ///< Requests announced with their description, not a bit.
  std::size_t names = 0;               ///< Kept in mind by this rank, of all process sets.
  std::size_t evictions = 0;           ///< Times that ids of names were taken back.
};

}  // namespace hvd
