// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <span>
#include <thread>

#include "base/deadline.h"
#include "base/mutex.h"
#include "engine/request/completion.h"
#include "engine/request/submission.h"
#include "engine/watch.h"
#include "transport/doorbell.h"

namespace hvd {

/// The work of a Driver: an epoch. The progress lock is part of it.
class Driven {
 public:
  virtual ~Driven() = default;
  /// Whoever holds it drives.
  Mutex& progress() HVD_RETURN_CAPABILITY(progress_) { return progress_; }

  /// Takes a request that has begun, after those that are queued.
  virtual void submit(const PendingPtr& pending) HVD_REQUIRES(progress_) = 0;
  /// Moves what can be moved; true when anything was.
  virtual bool step() HVD_REQUIRES(progress_) = 0;
  /// What a look at that alone which other ranks bring to direct rounds has shown.
  enum class Look {
    kUnknown,  ///< Nothing: it takes a step.
    kAwaits,   ///< It is not there. A step may yet move something else.
    kMoved,    ///< It was there, and is done.
  };
  /// A quick look for the sake of a request, which does what it can.
  virtual Look look(const PendingRequest& awaited) HVD_REQUIRES(progress_) = 0;
  /// Work that is due now and then; called about every Driver::kTick.
  virtual void tick(Clock::time_point now) HVD_REQUIRES(progress_) = 0;
  /// Looks for requests whose callers wait too long while nothing has decided them. Returns when to
  /// look again; the next tick will do unless it is sooner.
  virtual Clock::time_point urge(Clock::time_point now) HVD_REQUIRES(progress_) = 0;
  virtual void handle(const Watch::Event& event) HVD_REQUIRES(progress_) = 0;
  /// True when something may come for this rank from others. A rank that nobody can need neither
  /// polls nor asks to be woken.
  virtual bool may_be_needed() const HVD_REQUIRES(progress_) = 0;
  /// True while a task is under way for which nothing wakes the thread.
  virtual bool needs_polling() const HVD_REQUIRES(progress_) = 0;
  /// Hands on what was said and found no room; true when nothing is left.
  virtual bool send_rest() HVD_REQUIRES(progress_) = 0;
  /// The thread cannot sleep any more: this rank is lost, and the others are told.
  virtual void lose_self(const Status& cause) HVD_REQUIRES(progress_) = 0;

 protected:
  Mutex progress_;
};

/// The end of a caller's wait.
enum class Until { kEnqueued, kDone };

/// Keeps an epoch moving: by the engine's own thread, which sleeps until a submission, a control
/// message, a death or a completion, and by callers that wait, who drive instead of sleeping.
///
/// A rank that nobody can need (Driven::may_be_needed()) neither polls nor asks to be woken; its
/// thread looks around every kTick anyway.
/// Thread-safe, except for what is marked otherwise.
class Driver {
 public:
  static constexpr std::chrono::milliseconds kTick{200};
  /// How long a caller waits for what nothing has decided until its rank may urge.
  static constexpr std::chrono::milliseconds kUrgeTime{1};
  /// The same for one that looks in, or is called back.
  static constexpr std::chrono::seconds kUrgeTimeOfOthers{1};

  /// How callers wait.
  struct Pace {
    int spin_polls = 0;            ///< Steps without work before a waiter yields its core.
    unsigned looks = 1;            ///< Of so many polls one is a step, the others are quick looks.
    Clock::duration long_yield{};  ///< A yield of more: others compute here.
    /// `sharers`: ranks on this machine; `spin`: EngineOptions::spin.
    static Pace of(int spin, int sharers, int usable_cpus);
  };
  /// All outlive the driver.
  struct Parts {
    Driven& driven;
    Watch& watch;
    Doorbell& doorbell;
    Submission& submission;
    Completion& completion;
  };
  Driver(Parts parts, Pace pace) : parts_(parts), driven_(parts.driven), pace_(pace) {}

  /// Starts the thread; once. kSystem: there is no room for one. `orphaned` is the last thing that
  /// it does where stop() was called on the thread itself.
  Status start(std::function<void()> orphaned);
  /// Ends the thread. True when it has ended; false on that very thread (in a callback), which goes
  /// on to the end of the callback and then calls `orphaned`.
  bool stop();

  /// Wakes the thread where it sleeps: something was submitted.
  void wake() const {
    if (thread_sleeps_.load()) parts_.doorbell.ring_self();
  }
  /// Wakes the thread, asleep or not.
  void ring() const { parts_.doorbell.ring_self(); }
  /// Drives and sleeps until the request has come, or the deadline. False: it has not.
  bool await(const PendingRequest& pending, Until until, Deadline deadline);
  /// Submits a request that has begun, and awaits its end. Nobody else hears of it where this
  /// caller can drive at once.
  bool run(const PendingPtr& pending, Deadline deadline);
  /// Takes a short while at most to hand on what was said last: a full ring or socket may hold it.
  void send_last_words();

  /// From now on requests may be kept back in buckets (they are on GPU memory), and callers urge.
  void enable_urging() {
    // relaxed: before this rank's first tensor of GPU memory, without which there are no buckets.
    may_urge_.store(true, std::memory_order_relaxed);
  }
  /// A caller thinks of the request as overdue from `time` on.
  void note_overdue(const PendingRequest& pending, Clock::time_point time);
  /// The thread looks who is overdue then.
  void urge_at(Clock::time_point time);

  /// The time that callers have spent in await().
  std::chrono::nanoseconds waited() const { return std::chrono::nanoseconds(waited_ns_.load()); }

 private:
  /// How long a waiter with a core to itself polls before it yields.
  static constexpr std::chrono::microseconds kSpinTime{2'000};
  /// How long a waiter yields its core, poll by poll, before it sleeps.
  static constexpr std::chrono::microseconds kYieldTime{500};
  /// A yield is short among ranks that all wait, and a time slice or more among programs that
  /// compute: there a sleeper is woken sooner than a yielder gets its turn. After a long yield
  /// (Pace::long_yield) nobody here yields for this long.
  static constexpr std::chrono::milliseconds kCrowdedTime{100};
  /// How long a sleep is while a task is under way for which nothing wakes us.
  static constexpr std::chrono::microseconds kPollInterval{50};
  static constexpr Clock::rep kNoUrge = Clock::duration::max().count();

  /// A caller that comes last never steps, since it finds what it waits for at once. Of so many of
  /// them one does, so that the log is read.
  static constexpr unsigned kDrivesToStep = 64;

  static bool has_come(const PendingRequest& pending, Until until) {
    return pending.done.load() || (until == Until::kEnqueued && pending.enqueued.load());
  }
  /// `submitted`: what this caller submits, until it is; null: nothing.
  bool await(const PendingRequest& pending, const PendingPtr* submitted, Until until,
             Deadline deadline);
  void run();
  /// One sleep of the thread, and what woke it.
  Status sleep();
  void drive_until_idle();
  void drive(const PendingRequest& pending, Until until, Deadline deadline)
      HVD_REQUIRES(driven_.progress());
  /// What the links have told the caller that drives; false where they cannot be looked at.
  bool tell_of_links() HVD_REQUIRES(driven_.progress());
  bool step() HVD_REQUIRES(driven_.progress());
  void tick_if_due() HVD_REQUIRES(driven_.progress());
  void urge_if_due(Clock::time_point now, bool in_any_case) HVD_REQUIRES(driven_.progress());
  Deadline next_urge() const;
  /// True when this rank is told to sleep and a last look found nothing to do.
  bool park() HVD_REQUIRES(driven_.progress());
  void yield_core() HVD_REQUIRES(driven_.progress());

  const Parts parts_;
  Driven& driven_;
  const Pace pace_;

  unsigned steps_ HVD_GUARDED_BY(driven_.progress()) = 0;
  unsigned drives_ HVD_GUARDED_BY(driven_.progress()) = 0;
  Clock::time_point next_tick_ HVD_GUARDED_BY(driven_.progress());
  Clock::time_point crowded_until_ HVD_GUARDED_BY(driven_.progress());

  std::atomic<int> waiting_callers_{0};  ///< Callers that drive or would like to.
  std::atomic<bool> thread_sleeps_{false};
  std::atomic<bool> polling_{false};  ///< Whoever parked left a task for which nothing wakes us.
  std::atomic<bool> stepped_back_{false};  ///< The thread stopped for a caller, or a callback.
  std::atomic<bool> may_urge_{false};
  std::atomic<Clock::rep> urge_at_{kNoUrge};
  std::atomic<std::int64_t> waited_ns_{0};
  std::atomic<bool> stop_{false};
  bool stopped_by_own_thread_ = false;  ///< Known to that thread only.
  std::thread thread_;
};

}  // namespace hvd
