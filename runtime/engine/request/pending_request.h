// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/mutex.h"
#include "collective/moving_counts.h"
#include "device/ready_points.h"
#include "engine/request/description.h"
#include "engine/request/request.h"
#include "engine/timeline/traced_request.h"

namespace hvd {

/// What a request on GPU memory has besides.
struct GpuPending {
  MemoryReaper* reaper = nullptr;  ///< Of results that the library makes.
  ReadyPointPtr ready;             ///< Where the inputs are ready; null: CPU memory.
  int batches_to_enqueue = 0;      ///< As batches_left: those that no stream holds yet.
  /// Where the results are complete; may be read by anyone once `enqueued` is true.
  std::vector<GpuEventPtr> finish_points;
  /// Streams that wait for it, and may read what the library made.
  Mutex readers_mutex;
  std::vector<StreamHandle> readers HVD_GUARDED_BY(readers_mutex);
};

/// What a request that moves rows has besides, in a direct round: for its next one as well.
struct DirectRows {
  MovingCounts counts;
  std::vector<const void*> sources;   ///< [rank] what is left of its rows.
  std::vector<std::size_t> received;  ///< [rank] elements.
};

/// A request on its way through the stages, from submission to completion.
/// Its caller writes the fields until it is submitted, then whoever holds the progress lock;
/// `status` and `gathered` may be read by anyone once `done` is true.
struct PendingRequest {
  std::uint64_t handle = 0;
  Request request;
  Description description;
  /// Which call of its kind in the process set it is, from 1, where the caller gave no name: then
  /// it is named by its place in the program (see Submission::kPlaces). 0: the caller did.
  std::uint64_t call = 0;
  bool cacheable = true;     ///< False: the name will not come again.
  std::string key;           ///< In KeptRequests; empty: it ends with its first use.
  std::size_t key_hash = 0;  ///< Of `key`.
  /// The number of its name (see DirectRounds::Offer) for which its description was found to be the
  /// agreed one, and to fit into a direct round; 0: not looked at.
  std::uint32_t direct_key = 0;
  std::optional<DirectRows> direct_rows;  ///< Of those for which this was looked at.
  int batches_left = 0;                ///< Batches of this request that the backends still work on.
  Status failure;                      ///< The first failure among them.
  std::vector<GatherResult> gathered;  ///< Made by the library: one per tensor.

  GpuPending gpu;
  std::atomic<bool> enqueued{false};  ///< Streams may wait for it. Before `done`, or never.

  /// GPU memory, once `enqueued` or `done` is true.
  bool has_rows_of_library() const {
    return std::any_of(gathered.begin(), gathered.end(),
                       [](const GatherResult& one) { return one.data != nullptr; });
  }

  static constexpr Clock::rep kNeverOverdue = Clock::duration::max().count();
  /// When a caller that waits is held up too long while nothing has decided the request.
  mutable std::atomic<Clock::rep> overdue_at{kNeverOverdue};

  TracedRequest trace;  ///< Set before it is queued.

  bool active_average = false;  ///< Join: averages divide by the ranks that take part.
  int last_joined = -1;         ///< Join, once it is done.
  /// True for the part of a rank that has joined in what others do: nothing added, and submitted by
  /// nobody.
  bool is_stand_in = false;
  std::unique_ptr<std::byte[]> neutral;  ///< Its tensors; null for GPU memory, which it has not.

  Status status;
  std::atomic<bool> done{false};

  /// A kept request is submitted once more, and nobody else knows of it yet.
  void begin_again() {
    if (std::exchange(call, 0) > 0) {
      request.name.clear();
      direct_key = 0;
    }
    trace = {};
    gpu.batches_to_enqueue = 0;
    // relaxed: it is submitted under a lock.
    overdue_at.store(kNeverOverdue, std::memory_order_relaxed);
    enqueued.store(false, std::memory_order_relaxed);
    done.store(false, std::memory_order_relaxed);
  }

  /// kTimeout, for a caller that has waited long enough; the request stays under way.
  Status not_in_time(int rank) const {
    return error(Code::kTimeout,
                 "rank {}: '{}' ({}) has not completed in time; it is still under way", rank,
                 request.name, describe(request.operation));
  }

  /// No caller has to wait for it: a stream of ours holds it, or no caller knows of it.
  bool ends_by_itself() const { return is_stand_in || enqueued.load(); }
};

/// Shared by the handle table (until released) and the stage that works on it.
using PendingPtr = std::shared_ptr<PendingRequest>;

/// A checked request, described.
inline PendingPtr make_pending(Request&& request) {
  auto pending = std::make_shared<PendingRequest>();
  pending->description = describe_request(request);
  pending->request = std::move(request);
  return pending;
}

}  // namespace hvd
