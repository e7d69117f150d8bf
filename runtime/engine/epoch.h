// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/wiring.h"
#include "collective/rank_set.h"
#include "engine/driver.h"
#include "engine/ending.h"
#include "engine/loss_watch.h"
#include "engine/node_processes.h"
#include "engine/options.h"
#include "engine/plane/planes.h"
#include "engine/plane/process_sets.h"
#include "engine/protocol/negotiation.h"
#include "engine/statistics.h"
#include "engine/timeline/timeline.h"
#include "engine/watch.h"

namespace hvd {

/// One membership of the job, from the wiring of its ranks to its end: it takes what was submitted
/// through negotiation to the planes, and ends, once, when all ranks have left or one is lost. What
/// is pending then fails. Another epoch may follow it in the same process.
/// Under the progress lock, except for what is marked thread-safe.
class Epoch final : public Driven {
 public:
  /// Parts of the engine that outlive the epoch.
  struct Parts {
    Submission& submission;
    Completion& completion;
    Timeline& timeline;
    std::function<void()> on_frozen;  ///< Buckets are fixed: callers may wait for one already.
  };

  /// Everything that can fail of the beginning. kInternal: the node's memory is too small.
  static Result<std::unique_ptr<Epoch>> open(Wiring wiring, std::span<const BackendEntry> table,
                                             const EngineOptions& options, Parts parts);

  // Thread-safe.

  const Communicator& world() const { return world_; }
  const std::vector<PeerInfo>& peers() const { return wiring_.peers; }
  const Wiring& wiring() const { return wiring_; }
  const EngineOptions& options() const { return options_; }
  Ending& ending() { return ending_; }
  const Ending& ending() const { return ending_; }
  ProcessSets& sets() { return sets_; }
  Doorbell& doorbell() { return *wiring_.node.doorbell; }
  Watch& watch() { return *watch_; }
  std::shared_ptr<SharedArena> arena() const { return wiring_.node.arena; }

  // Driven.

  void submit(const PendingPtr& pending) override HVD_REQUIRES(progress_);
  bool step() override HVD_REQUIRES(progress_);
  Look look(const PendingRequest& awaited) override HVD_REQUIRES(progress_);
  void tick(Clock::time_point now) override HVD_REQUIRES(progress_);
  Clock::time_point urge(Clock::time_point now) override HVD_REQUIRES(progress_);
  void handle(const Watch::Event& event) override HVD_REQUIRES(progress_);
  bool may_be_needed() const override HVD_REQUIRES(progress_);
  bool needs_polling() const override HVD_REQUIRES(progress_) { return planes_.needs_polling(); }
  bool send_rest() override HVD_REQUIRES(progress_) { return negotiation_.flush(); }
  void lose_self(const Status& cause) override HVD_REQUIRES(progress_);

  // The ways out.

  /// Says farewell: what was submitted before is still done.
  void leave() HVD_REQUIRES(progress_);
  /// Ranks that have not said farewell.
  RankSet missing() const HVD_REQUIRES(progress_) {
    return RankSet::all(world_.size).without(left_);
  }
  /// This rank ends its part in the job: `cause` is told to the others, as that of a loss.
  void abort(const std::string& cause) HVD_REQUIRES(progress_);
  /// Leaves `cause` where the other ranks find it once the process has ended.
  void leave_farewell(const std::string& cause) HVD_REQUIRES(progress_);
  /// Nobody can call this engine any more: ends what is pending, and listens no more.
  void close() HVD_REQUIRES(progress_);

  // Changes of the process sets (SetChanges), once all ranks have agreed.

  /// Connects this rank's part of a new set; no lock, one thread at a time.
  Result<std::string> offer_links() { return wiring_.sets->offer(); }
  void withdraw_offer() { wiring_.sets->withdraw(); }
  Result<std::unique_ptr<SetPlane>> connect_set(SetWiring::Plan plan,
                                                const std::vector<int>& ranks);
  /// Keeps the connected plane until the log names the set; null: there will be none.
  void set_forming(std::unique_ptr<SetPlane> plane) HVD_REQUIRES(progress_) {
    planes_.set_forming(std::move(plane));
  }
  void add_set(const RankSet& ranks) HVD_REQUIRES(progress_);
  int last_formed() const HVD_REQUIRES(progress_) { return planes_.last_formed(); }
  /// Takes the set out. Its connections close only when nobody watches them any more, with the
  /// plane that is returned: their end is not a loss.
  std::unique_ptr<SetPlane> remove_set(int process_set) HVD_REQUIRES(progress_);

  EngineStatistics statistics() const HVD_REQUIRES(progress_);
  /// For people: what moves the tensors of each process set, and why; see describe().
  std::string describe_planes() const HVD_REQUIRES(progress_);
  std::string describe_processes() const HVD_REQUIRES(progress_) {
    return processes_.describe(Driver::kTick);
  }

 private:
  /// Steps that take in what a rank said before it went.
  static constexpr int kLastWords = 100'000;
  /// Batches under way at which the root keeps complete names back, so that they gather.
  static constexpr std::size_t kBusyBatches = 2;
  /// How long a broken epoch waits until nobody works in our tensors any more.
  static constexpr std::chrono::seconds kSettleTime{2};
  /// ... and until devices do not. They may have seconds of other work before them, for which no
  /// caller has to wait.
  static constexpr std::chrono::milliseconds kDeviceSettleTime{500};

  Epoch(Wiring wiring, std::span<const BackendEntry> table, const EngineOptions& options,
        Parts parts, std::unique_ptr<Watch> watch);
  Status open_world() HVD_REQUIRES(progress_);

  void take_submissions() HVD_REQUIRES(progress_);
  void take(PendingPtr pending) HVD_REQUIRES(progress_);
  void apply_decisions() HVD_REQUIRES(progress_);
  void apply(RunTogether& run) HVD_REQUIRES(progress_);
  void apply(RunDirect& run) HVD_REQUIRES(progress_);
  void apply(FailRequest& fail) HVD_REQUIRES(progress_);
  void apply(PeerLeft& left) HVD_REQUIRES(progress_);
  void apply(PeerLost& lost) HVD_REQUIRES(progress_);
  void apply(AllLeft& left) HVD_REQUIRES(progress_);
  void apply(GivenUp& given_up) HVD_REQUIRES(progress_);
  void apply(SetFormed& formed) HVD_REQUIRES(progress_);
  void apply(PassedOver& passed) HVD_REQUIRES(progress_);
  void apply(BucketsChanged& buckets) HVD_REQUIRES(progress_);
  void start_batches(SetPlane& plane, RunTogether& run) HVD_REQUIRES(progress_);
  bool advance_planes() HVD_REQUIRES(progress_);
  void complete_finished(SetPlane& plane) HVD_REQUIRES(progress_);
  void mark_enqueued(SetPlane& plane) HVD_REQUIRES(progress_);
  void finish(const PendingPtr& pending, const Status& status) HVD_REQUIRES(progress_);

  // The end: epoch_end.cc.

  /// True where this rank is on the way out, and nothing of it is missing.
  bool end_quietly() HVD_REQUIRES(progress_);
  /// Every rank has left: ends as soon as what is under way is done. Callers of wait_stream() think
  /// of it as done, and other ranks need what nobody here waits for.
  void end_if_left() HVD_REQUIRES(progress_);
  void process_ended(std::size_t local_rank) HVD_REQUIRES(progress_);
  void peer_gone(int rank, const std::string& cause, bool certain) HVD_REQUIRES(progress_);
  void look_at_processes(Clock::time_point now) HVD_REQUIRES(progress_);
  /// Tells all ranks, where there is something to tell. True where there was.
  bool spread(const std::optional<Loss>& loss) HVD_REQUIRES(progress_);
  /// The error of operations that need a rank which has left by shutdown and ended.
  Status gone_after_leaving(int rank) const;
  void end(const Status& status) HVD_REQUIRES(progress_);
  /// Fails what the plane had under way on GPUs, or on the CPU, once nobody works in its tensors
  /// any more; at the deadline in any case, and with words about it.
  void settle(SetPlane& plane, bool on_gpu, const Status& status, Deadline deadline)
      HVD_REQUIRES(progress_);

  const Communicator world_;
  const EngineOptions options_;
  const std::vector<BackendEntry> table_;
  Wiring wiring_;  ///< Links have moved on; the node group and the wiring of sets stay here.
  const Parts parts_;
  const std::unique_ptr<Watch> watch_;
  Ending ending_;
  ProcessSets sets_;

  Planes planes_ HVD_GUARDED_BY(progress_);
  NodeProcesses processes_ HVD_GUARDED_BY(progress_);
  LossWatch losses_ HVD_GUARDED_BY(progress_);
  Negotiation negotiation_ HVD_GUARDED_BY(progress_);
  std::vector<PendingPtr> taken_ HVD_GUARDED_BY(progress_);
  std::vector<Decision> decided_ HVD_GUARDED_BY(progress_);  ///< Empty between steps.
  RankSet left_ HVD_GUARDED_BY(progress_);                   ///< Have said farewell.
  RankSet lost_ HVD_GUARDED_BY(progress_);
  std::vector<PendingPtr> broken_ HVD_GUARDED_BY(progress_);  ///< Fail with the epoch.
  std::size_t in_progress_ HVD_GUARDED_BY(progress_) = 0;     ///< Requests, stand-ins as well.
  /// Every rank has left; what is still under way comes first.
  bool log_is_over_ HVD_GUARDED_BY(progress_) = false;
  EngineStatistics statistics_ HVD_GUARDED_BY(progress_);
};

/// Bytes of NodeGroup::memory that an epoch and the backends of `table` need for a node of
/// `local_size` ranks.
std::size_t node_memory_bytes(std::span<const BackendEntry> table, int local_size);

}  // namespace hvd
