// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collective/launch_order.h"
#include "engine/engine.h"
#include "engine/plane/set_plane.h"
#include "engine/protocol/negotiation.h"
#include "engine/protocol/set_change.h"
#include "engine/request/completion.h"
#include "engine/request/submission.h"
#include "engine/timeline/timeline.h"
#include "transport/poller.h"

namespace hvd {

/// The five stages and what drives them.
///
/// Whoever holds the progress lock drives: the engine's own thread, or a caller that waits.
/// A rank that nobody can need (see may_be_needed) neither polls nor asks to be woken; its thread
/// looks around every kTick anyway.
class Engine::Impl {
 public:
  Impl(Wiring wiring, std::span<const BackendEntry> table, const EngineOptions& options,
       Poller poller);

  Status open();
  /// `self` is this object: the thread keeps it until its end.
  void start_thread(std::shared_ptr<Impl> self);
  /// Nobody can call this engine any more: ends the thread and what is pending.
  void stop();

  Result<Handle> submit(Request&& request);
  void flush();
  Result<bool> poll(Handle handle);
  Status wait(Handle handle, Deadline deadline);
  Status wait_stream(std::span<const Handle> handles, StreamHandle stream, Deadline deadline);
  void free_behind_readers(std::span<const Handle> handles);
  Status shutdown(Deadline deadline);
  bool left_together() const { return left_together_.load(); }
  void abort(const std::string& cause);
  void leave_farewell(const std::string& cause);
  void abandon_after_fork();
  Result<int> add_process_set(std::vector<int> ranks, Deadline deadline);
  Result<std::vector<std::string>> tell_all(Result<std::string> mine, Deadline deadline);
  Status remove_process_set(int process_set, Deadline deadline);
  Result<int> join(int process_set, bool active_average, Deadline deadline);
  std::vector<int> process_sets() const;
  Result<std::vector<int>> process_set_ranks(int process_set) const;
  std::string describe() const;
  Statistics statistics() const;
  std::shared_ptr<SharedArena> arena() const { return wiring_.node.arena; }

  /// Requests have a hand on these: they go last.
  Timeline timeline_;
  MemoryReaper reaper_;
  Completion completion_;
  Communicator world_;
  std::vector<PeerInfo> peers_;

 private:
  static constexpr std::chrono::milliseconds kTick{200};
  /// From one look at the processes of the node to the next; who is stopped in two is reported.
  static constexpr std::chrono::seconds kProcessLook{5};
  /// How long a waiter with a core to itself polls before it yields.
  static constexpr std::chrono::microseconds kSpinTime{2'000};
  /// How long a waiter yields its core, poll by poll, before it sleeps.
  static constexpr std::chrono::microseconds kYieldTime{500};
  /// A yield is short among ranks that all wait, and a time slice or more among programs that
  /// compute: there a sleeper is woken sooner than a yielder gets its turn. After a yield of more
  /// than kYieldTime, times the ranks per core, nobody here yields for this long.
  static constexpr std::chrono::milliseconds kCrowdedTime{100};
  /// How long a caller waits for what nothing has decided until its rank may urge.
  static constexpr std::chrono::milliseconds kUrgeTime{1};
  /// The same for one that looks in, or is called.
  static constexpr std::chrono::seconds kUrgeTimeOfOthers{1};
  static constexpr Clock::rep kNoUrge = Clock::duration::max().count();
  /// How long a sleep is while a task is under way for which nothing wakes us.
  static constexpr std::chrono::microseconds kPollInterval{50};
  /// A closed lane may only mean that its other end has heard of a loss before us, and left: the
  /// pidfds and the tree get this long to say whose.
  static constexpr std::chrono::milliseconds kPatience{100};
  /// Steps that take in what a rank said before it went.
  static constexpr int kLastWords = 100'000;
  /// How long a broken epoch waits until nobody works in our tensors any more.
  static constexpr std::chrono::seconds kSettleTime{2};
  /// ... and until devices do not. They may have seconds of other work before them, for which no
  /// caller has to wait.
  static constexpr std::chrono::milliseconds kDeviceSettleTime{500};
  struct Suspicion {
    int rank;
    std::string text;
    Clock::time_point due;
  };
  /// Batches under way at which the root keeps complete names back, so that they gather.
  static constexpr std::size_t kBusyBatches = 2;

  /// A process set of this rank or of others, for callers.
  struct KnownSet {
    std::vector<int> ranks;     ///< Of the job, ascending.
    SetPlane* plane = nullptr;  ///< Null on ranks that are not in it.
    bool closing = false;       ///< Being removed: takes no more requests.
    PendingPtr join;            ///< This rank has joined: takes none either, until it is done.
  };

  Status watch_descriptors() HVD_REQUIRES(progress_);
  Status watch_lanes(const SetPlane& plane);
  void unwatch_lanes(const SetPlane& plane);
  void publish_descriptors() HVD_REQUIRES(progress_);
  void run_thread();
  /// The thread cannot sleep any more: this rank is lost, and the others are told.
  void lose_myself(const Status& cause);
  /// Hands on what was said last: a full ring or socket may still hold it. A short while at most.
  void send_last_words();
  void end_pending();
  Result<bool> sleep();
  void handle_event(const Poller::Event& event);
  /// Ends the epoch where a host that the work under way needs does not answer.
  void check_lanes() HVD_REQUIRES(progress_);
  /// Finds ranks of this node that have ended, where no pidfd wakes us for it.
  void look_at_locks() HVD_REQUIRES(progress_);
  void process_ended(std::size_t local_rank) HVD_REQUIRES(progress_);
  std::optional<char> state_of_local_rank(std::size_t index) const;
  /// Says which ranks of this node are stopped, once for each stop that lasts; one that lasts too
  /// long is a loss.
  void look_at_processes(Clock::time_point now) HVD_REQUIRES(progress_);
  void is_stopped(int rank, int looks, std::string_view stop) HVD_REQUIRES(progress_);
  /// True while some host has left something unanswered: it may be what a closed connection of
  /// another is about.
  bool awaits_answer() const HVD_REQUIRES(progress_);

  bool step() HVD_REQUIRES(progress_);
  void take_submissions() HVD_REQUIRES(progress_);
  void apply(Decision& decision) HVD_REQUIRES(progress_);
  bool end_quietly() HVD_REQUIRES(progress_);
  void run_together(RunTogether& run) HVD_REQUIRES(progress_);
  void tick_if_due() HVD_REQUIRES(progress_);
  void peer_gone(int rank, const std::string& cause, bool certain) HVD_REQUIRES(progress_);
  std::string lost_text(int rank, const std::string& cause) const;
  void suspect(int rank, std::string text) HVD_REQUIRES(progress_);
  bool blames_first_of_node() HVD_REQUIRES(progress_);
  void end_epoch(const Status& status) HVD_REQUIRES(progress_);
  void settle(SetPlane& plane, bool on_gpu, const Status& status, Deadline deadline)
      HVD_REQUIRES(progress_);
  /// True for a rank that can no longer write into this rank's memory.
  bool has_ended(int rank) const HVD_REQUIRES(progress_);
  void finish(const PendingPtr& pending, const Status& status) HVD_REQUIRES(progress_);
  /// True when something may come for this rank from others.
  bool may_be_needed() const HVD_REQUIRES(progress_);
  /// True when this rank is told to sleep and a last look found nothing to do.
  bool park() HVD_REQUIRES(progress_);
  void yield_core() HVD_REQUIRES(progress_);
  /// What a caller waits for.
  enum class Until { kEnqueued, kDone };
  static bool has_come(const Pending& pending, Until until) {
    return pending.done.load() || (until == Until::kEnqueued && pending.enqueued.load());
  }
  void drive(const Pending& pending, Until until, Deadline deadline) HVD_REQUIRES(progress_);
  /// Drives and sleeps until it has come, or the deadline.
  void await(const Pending& pending, Until until, Deadline deadline);
  Status not_in_time(const Pending& pending) const;
  void mark_waiting(const Pending& pending, Clock::time_point until);
  void urge_at(Clock::time_point time);
  void urge_if_due(Clock::time_point now, bool in_any_case) HVD_REQUIRES(progress_);
  Deadline next_urge() const;
  /// What fails when a rank that had left by shutdown ends, and is missed.
  Status gone_after_leaving(int rank) const;
  bool is_over() const { return over_.load(); }
  SetPlane* find_plane(int process_set) HVD_REQUIRES(progress_);
  /// True while something runs in which the rank takes part.
  bool has_batch_with(int rank) const HVD_REQUIRES(progress_);
  bool need_polling() const HVD_REQUIRES(progress_);
  bool advance_planes() HVD_REQUIRES(progress_);
  void complete_finished(SetPlane& plane) HVD_REQUIRES(progress_);

  // GPU memory: engine_gpu.cc.
  Result<Gpu*> open_gpu(const Request& request);
  Status bind_gpu(SetPlane& plane, const Request& request) const;
  std::int32_t gpu_of_stand_in(const SetPlane& plane) const;
  void mark_enqueued(SetPlane& plane) HVD_REQUIRES(progress_);
  void end_if_left() HVD_REQUIRES(progress_);
  std::size_t await_unattended(const SetPlane* plane, Deadline deadline);

  // Process sets: engine_sets.cc.
  Status enter_set(Request& request);
  Status check_new_set(std::vector<int>& ranks) const;
  Result<PendingPtr> enter_join(int process_set, bool active_average);
  void leave_join(int process_set, const PendingPtr& join);
  Result<Handle> post(std::string name, Bytes mine);
  Result<std::vector<Bytes>> exchange(std::string name, Bytes mine, Deadline deadline);
  Result<Deadline> agree_on_change(std::uint64_t number, const SetProposal& mine)
      HVD_REQUIRES(change_mutex_);
  Result<std::vector<SetAnswer>> answer(std::uint64_t number, std::string_view step,
                                        const SetAnswer& mine, Deadline deadline);
  Result<std::unique_ptr<SetPlane>> connect_set(const SetWiring::Plan& plan,
                                                const std::vector<int>& ranks);
  Result<int> form_set(std::uint64_t number, const std::vector<int>& ranks, Deadline deadline);
  Result<const SetPlane*> close_set(int process_set);
  void reopen_set(int process_set);
  std::unique_ptr<SetPlane> retire_set(int process_set) HVD_REQUIRES(progress_);
  void apply_formed(const SetFormed& formed) HVD_REQUIRES(progress_);
  std::string describe_watch() const;
  std::string describe_sets() const;
  Status over_status();

  EngineOptions options_;
  std::vector<BackendEntry> table_;
  Wiring wiring_;  ///< Links have moved on; the node group and the wiring of sets stay here.
  Poller poller_;
  /// To close in the child of a fork, which may come at any moment: replaced as a whole.
  std::unique_ptr<const std::vector<int>> descriptor_list_ HVD_GUARDED_BY(progress_);
  std::atomic<const std::vector<int>*> descriptors_{nullptr};
  std::vector<int> job_descriptors_;
  int spin_polls_ = 0;
  Clock::duration long_yield_{};

  Submission submission_;
  ReadyPoints ready_points_;
  SetPlane* world_plane_ = nullptr;  ///< Set by open().

  Mutex progress_;
  std::unique_ptr<Negotiation> negotiation_ HVD_GUARDED_BY(progress_);
  LaunchOrder launch_order_ HVD_GUARDED_BY(progress_);  ///< Batches of the planes refer to it.
  /// Of the process sets that this rank is in; the first is that of all ranks.
  std::vector<std::unique_ptr<SetPlane>> planes_ HVD_GUARDED_BY(progress_);
  /// Of the set that is being added, until the log names it.
  std::unique_ptr<SetPlane> forming_ HVD_GUARDED_BY(progress_);
  int last_formed_ HVD_GUARDED_BY(progress_) = 0;
  unsigned steps_ HVD_GUARDED_BY(progress_) = 0;
  std::vector<PendingPtr> taken_ HVD_GUARDED_BY(progress_);
  RankSet left_ HVD_GUARDED_BY(progress_);
  RankSet lost_ HVD_GUARDED_BY(progress_);
  std::optional<Suspicion> suspicion_ HVD_GUARDED_BY(progress_);
  std::vector<PendingPtr> broken_ HVD_GUARDED_BY(progress_);  ///< Fail with the epoch.
  std::size_t in_progress_ HVD_GUARDED_BY(progress_) = 0;
  Clock::time_point next_tick_ HVD_GUARDED_BY(progress_);
  Clock::time_point crowded_until_ HVD_GUARDED_BY(progress_);
  Clock::time_point next_process_look_ HVD_GUARDED_BY(progress_);
  std::map<std::size_t, int> stopped_looks_ HVD_GUARDED_BY(progress_);  ///< By local rank.
  /// Local ranks that live and have no pidfd: their locks are looked at in each tick.
  std::vector<std::size_t> watched_by_lock_ HVD_GUARDED_BY(progress_);
  Statistics statistics_ HVD_GUARDED_BY(progress_);

  mutable Mutex sets_mutex_;
  std::map<int, KnownSet> sets_ HVD_GUARDED_BY(sets_mutex_);
  std::atomic<bool> has_joined_world_{false};  ///< As `join` of set 0; saves a lock.
  Mutex change_mutex_;                         ///< One change of the process sets at a time.
  std::uint64_t changes_ HVD_GUARDED_BY(change_mutex_) = 0;

  mutable Mutex over_mutex_;
  Status over_status_ HVD_GUARDED_BY(over_mutex_);  ///< Why nothing runs any more.
  std::atomic<bool> over_{false};
  std::atomic<bool> leaving_{false};
  std::atomic<bool> all_left_{false};
  std::atomic<bool> left_together_{false};  ///< ... and none was lost on the way out.

  std::atomic<int> waiting_callers_{0};  ///< Callers that drive or would like to.
  std::atomic<bool> thread_sleeps_{false};
  std::atomic<bool> polling_{false};  ///< Whoever parked left a task for which nothing wakes us.
  std::atomic<bool> stepped_back_{false};  ///< The thread stopped for a caller, or a callback.
  std::atomic<bool> has_gpu_tensors_{false};
  std::atomic<bool> stop_{false};
  bool stopped_by_own_thread_ = false;  ///< Known to that thread only.
  /// Every rank has left; what devices still do for this one comes first.
  bool log_is_over_ HVD_GUARDED_BY(progress_) = false;
  std::atomic<Clock::rep> urge_at_{kNoUrge};  ///< When the thread looks who is overdue.
  std::atomic<std::int64_t> waited_ns_{0};
  std::thread thread_;
};

}  // namespace hvd
