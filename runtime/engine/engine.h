// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "bootstrap/wiring.h"
#include "collective/backend.h"
#include "engine/driver.h"
#include "engine/epoch.h"
#include "engine/options.h"
#include "engine/request/completion.h"
#include "engine/request/gpu_requests.h"
#include "engine/request/kept_requests.h"
#include "engine/request/request.h"
#include "engine/request/submission.h"
#include "engine/set_changes.h"
#include "engine/statistics.h"
#include "engine/timeline/timeline.h"

namespace hvd {

class Engine;
/// Stops the thread of an engine, waits for its end and frees the engine. In a callback on that
/// very thread: all three are done when the callback has returned.
struct EngineEnd {
  void operator()(Engine* engine) const;
};
using EnginePtr = std::unique_ptr<Engine, EngineEnd>;

/// Runs collectives for one rank: submitted -> negotiated -> fused -> reduced -> completed.
///
/// Owns one thread, which sleeps until a submission, a control message, a peer's death or a
/// completion; a waiting caller drives progress itself. No global state: tests run N engines as N
/// threads of one process. Thread-safe.
class Engine {
 public:
  using Handle = std::uint64_t;  ///< Never 0.

  /// `table` lists the backends in order of preference and outlives the engine; one that cannot
  /// serve declines with a Status, which describe() repeats.
  static Result<EnginePtr> start(Wiring wiring, std::span<const BackendEntry> table,
                                 const EngineOptions& options);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Checks the request on this rank and queues it. A name that is in flight queues behind itself.
  Result<Handle> submit(Request request);
  /// Submits the request and waits, as submit(), outcome() and release() would. `handle` becomes
  /// that of what must be released: what is still under way then, or has rows to read; else 0. A
  /// request that ends well is kept under `key`, if there is one: see KeptRequests.
  Status run(Request request, const KeptRequests::Key& key, Deadline deadline, Handle& handle);
  /// The kept request; null: there is none. Its tensors are where they were.
  PendingPtr take_kept(const KeptRequests::Key& key) { return kept_.take(key); }
  /// The same for a kept request, whose tensors are where they are this time.
  Status run(PendingPtr kept, Deadline deadline, Handle& handle);
  /// Wakes the engine for requests submitted with `more`.
  void flush();
  /// True when the request has completed, well or not. Unknown handles: kInvalidArgument.
  Result<bool> poll(Handle handle);
  /// The outcome of the request; drives progress while waiting. kTimeout: still in flight.
  Status wait(Handle handle, Deadline deadline);
  /// The same; kTimeout means nothing else: kAborted where the request itself was not in time.
  Status outcome(Handle handle, Deadline deadline);
  /// GPU memory: waits until a stream of ours holds the whole request, and puts what follows in
  /// `stream` after it. kInvalidArgument: CPU memory.
  Status wait_stream(Handle handle, StreamHandle stream, Deadline deadline);
  /// As for each of them, but `stream` waits once for what left together. The first that failed,
  /// or is not in time, ends it.
  Status wait_stream(std::span<const Handle> handles, StreamHandle stream, Deadline deadline);
  /// After completion: the gathered rows of tensor `index` of an allgather.
  Result<const GatherResult*> gathered(Handle handle, std::size_t index);
  /// Forgets a completed request; one in flight is forgotten when it completes.
  void release(Handle handle);
  void release(std::span<const Handle> handles);

  /// Makes the ranks a process set, beside set 0 of all ranks. Every rank of the job calls it with
  /// the same ranks, in any order, and gets the same number, which never comes again. kMismatch:
  /// the ranks disagree. kTimeout: not all came, and nothing has changed.
  Result<int> add_process_set(std::vector<int> ranks, Deadline deadline);
  /// The texts of all ranks about the sets to come, by rank. Every rank of the job calls it; where
  /// one has a failure instead, all get that, with its rank and host. kTimeout: not all came.
  Result<std::vector<std::string>> tell_all(Result<std::string> mine, Deadline deadline);
  /// Ends a process set and frees what it holds. Every rank of the job calls it, with nothing of
  /// the set in flight.
  Status remove_process_set(int process_set, Deadline deadline);
  /// This rank has no more data for the process set: until all its ranks have joined it takes part
  /// in their allreduces with nothing to add, and takes no requests for the set. Averages divide by
  /// the size of the set meanwhile, or with `active_average` by the ranks that have not joined.
  /// Returns the last rank (of the job) to join, the same on every rank. kTimeout: still joined,
  /// call again; kMismatch: ranks disagree about `active_average`.
  Result<int> join(int process_set, bool active_average, Deadline deadline);
  /// The numbers of all process sets, ascending.
  std::vector<int> process_sets() const;
  /// The ranks of a process set, ascending.
  Result<std::vector<int>> process_set_ranks(int process_set) const;

  /// Leaves the job: waits until all ranks have called it or the deadline passes, then stops the
  /// thread. PendingRequest requests fail with kAborted.
  Status shutdown(Deadline deadline);
  /// True after a shutdown in which no rank was missing.
  bool left_together() const;
  /// Ends this rank's part in the job because of an error: what is pending fails on every rank,
  /// with `cause` in the text. See leave_farewell() for a program that is about to end.
  void abort(const std::string& cause);
  /// Leaves `cause` where the ranks of this node find it once the process has ended.
  void leave_farewell(const std::string& cause);
  /// In the child of a fork: closes descriptors, touches nothing else. Only call then.
  void abandon_after_fork();

  /// Memory that the ranks of this node share: collectives work on tensors in it without copying.
  std::shared_ptr<SharedArena> arena() const { return epoch_->arena(); }
  const Communicator& world() const { return epoch_->world(); }
  const std::vector<PeerInfo>& peers() const { return epoch_->peers(); }
  /// As hvd::describe() of the epoch.
  std::string describe() const;

  using Statistics = EngineStatistics;
  Statistics statistics() const;

  /// Takes down from now on what becomes of each request, until stop_timeline() or the end of the
  /// engine; requests that are in flight are not in it. See Timeline.
  Status start_timeline(const TimelineOptions& options) { return timeline_.start(options); }
  Status stop_timeline() { return timeline_.stop(); }

 private:
  friend struct EngineEnd;
  Engine(const PeerInfo& me, const EngineOptions& options);
  ~Engine() = default;
  Status open(Wiring wiring, std::span<const BackendEntry> table, const EngineOptions& options);
  /// The thread has ended: so does what is pending.
  void close();
  /// kAborted: nothing is submitted any more.
  Status may_submit(const Request& request) const;
  /// Runs what has entered its process set.
  Status run_entered(PendingPtr pending, Deadline deadline, Handle& handle);
  /// Waits until the request has come; false: it is late.
  bool await(const PendingRequest& pending, Until until, Deadline deadline);
  int rank() const { return epoch_->world().rank; }

  // Requests refer to these two: they go last.
  Timeline timeline_;
  GpuRequests gpu_requests_;
  Completion completion_;
  KeptRequests kept_;
  Submission submission_;
  std::unique_ptr<Epoch> epoch_;
  std::unique_ptr<Driver> driver_;
  std::unique_ptr<SetChanges> set_changes_;
};

}  // namespace hvd
