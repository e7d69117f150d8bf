// SPDX-License-Identifier: Apache-2.0
#include "engine/driver.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "base/rounding.h"
#include "base/start_thread.h"

namespace hvd {
namespace {

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

Driver::Pace Driver::Pace::of(int spin, int sharers, int usable_cpus) {
  const bool crowded = sharers > usable_cpus;
  const int cpus = std::max(usable_cpus, 1);
  return {.spin_polls = spin >= 0 ? spin + 1 : (crowded ? 50 : 20'000),
          .looks = crowded ? 1U : 8U,
          .long_yield = kYieldTime * divide_up(sharers, cpus)};
}

Status Driver::start(std::function<void()> orphaned) {
  HVD_TRY_ASSIGN(thread_, start_thread([this, orphaned = std::move(orphaned)] {
                   run();
                   if (stopped_by_own_thread_) orphaned();
                 }));
  return Status::ok();
}

bool Driver::stop() {
  stop_.store(true);
  if (thread_.get_id() == std::this_thread::get_id()) {
    // A callback held the engine last. Its thread cannot wait for itself.
    stopped_by_own_thread_ = true;
    thread_.detach();
    return false;
  }
  ring();
  if (thread_.joinable()) thread_.join();  // There may have been no room for it.
  return true;
}

bool Driver::step() {
  const bool moved = driven_.step();
  if (++steps_ % 256 == 0) tick_if_due();
  return moved;
}

void Driver::tick_if_due() {
  const auto now = Clock::now();
  urge_if_due(now, now >= next_tick_);
  if (now < next_tick_) return;
  next_tick_ = now + kTick;
  driven_.tick(now);
}

void Driver::yield_core() {
  const auto before = Clock::now();
  sched_yield();
  const auto now = Clock::now();
  if (now - before > pace_.long_yield) crowded_until_ = now + kCrowdedTime;
}

bool Driver::park() {
  const bool needed = driven_.may_be_needed();
  if (needed) parts_.doorbell.set_asleep(true);
  if (!needed || !step()) {
    const bool polls = driven_.needs_polling();
    // relaxed: written here only, under the progress lock.
    if (polling_.load(std::memory_order_relaxed) != polls) polling_.store(polls);
    return true;
  }
  parts_.doorbell.set_asleep(false);
  return false;
}

void Driver::run() {
  while (!stop_.load()) {
    if (const Status slept = sleep(); !slept.is_ok()) {
      {
        Lock lock(driven_.progress());
        driven_.lose_self(slept);
      }
      parts_.completion.run_callbacks();
      return send_last_words();
    }
    drive_until_idle();
    parts_.completion.run_callbacks();
  }
}

void Driver::drive_until_idle() {
  Lock lock(driven_.progress());
  stepped_back_.store(false);
  parts_.doorbell.set_asleep(false);
  tick_if_due();
  int idle = 0;
  bool parked = false;
  auto quiet_since = Clock::now();
  const auto may_yield = [&]() HVD_REQUIRES(driven_.progress()) {
    const auto now = Clock::now();
    return idle < 16 && now - quiet_since < kYieldTime && now >= crowded_until_;
  };
  // A caller that waits drives better than we do: it has nothing else to do on its core.
  while (waiting_callers_.load() == 0) {
    if (step()) {
      idle = 0;
      quiet_since = Clock::now();
    } else if (may_yield()) {
      ++idle;
      yield_core();
    } else if (park()) {
      parked = true;
      break;
    }
    if (parts_.completion.has_callbacks()) break;
  }
  // Who holds us up has the last word: it rings when it goes and leaves something behind.
  stepped_back_.store(!parked);
}

Status Driver::sleep() {
  Watch::Events events;
  Deadline deadline = Deadline::after(kTick);
  thread_sleeps_.store(true);  // seq_cst: a submission after this rings; one before is seen now
  const bool left_alone = stepped_back_.load() && waiting_callers_.load() == 0;
  if (left_alone || !parts_.submission.is_empty() || stop_.load()) {
    deadline = Deadline::at(Clock::now());
  }
  deadline = deadline.earlier(next_urge());
  // A caller that drives polls for us, and rings when it stops.
  const bool brief = polling_.load() && waiting_callers_.load() == 0;
  const auto woken = brief ? parts_.watch.wait_briefly(events, kPollInterval)
                           : parts_.watch.wait(events, deadline);
  thread_sleeps_.store(false);
  HVD_TRY(woken.status());
  for (const Watch::Event& event : woken.value()) {
    Lock lock(driven_.progress());
    driven_.handle(event);
  }
  return Status::ok();
}

void Driver::drive(const PendingRequest& pending, Until until, Deadline deadline) {
  parts_.doorbell.set_asleep(false);
  parts_.watch.leave_links();
  int idle = 0;
  bool looks = true;  // at first, and after steps without work
  Clock::time_point spin_end;
  Clock::time_point give_up;
  for (unsigned polls = 0; !has_come(pending, until); ++polls) {
    if (polls % 256 == 255 && deadline.has_passed()) break;
    if (looks && polls % pace_.looks != pace_.looks - 1) {
      const Driven::Look look = driven_.look(pending);
      if (look == Driven::Look::kAwaits) relax();
      if (look != Driven::Look::kUnknown) continue;
    }
    looks = !step();
    if (!looks) {
      idle = 0;
      continue;
    }
    ++idle;
    if (idle == 1) spin_end = Clock::now() + kSpinTime;
    if (idle < pace_.spin_polls) {
      relax();
      if (idle % 64 == 0 && Clock::now() >= spin_end) idle = pace_.spin_polls - 1;
    } else {
      // See kCrowdedTime.
      const auto now = Clock::now();
      if (idle == pace_.spin_polls) give_up = now + kYieldTime;
      if (now >= give_up || now < crowded_until_) break;
      yield_core();
    }
  }
  if (++drives_ % kDrivesToStep == 0) step();
  // Leave nothing behind that only we would do: what is ready now goes to the thread.
  const bool has_told = tell_of_links();
  if (!park() || !has_told) ring();
  parts_.watch.hear_links();
}

bool Driver::tell_of_links() {
  Watch::Events events;
  const auto told = parts_.watch.look_at_links(events);
  if (!told.is_ok()) return false;
  for (const Watch::Event& event : told.value()) driven_.handle(event);
  return true;
}

bool Driver::await(const PendingRequest& pending, Until until, Deadline deadline) {
  return await(pending, nullptr, until, deadline);
}

bool Driver::run(const PendingPtr& pending, Deadline deadline) {
  return await(*pending, &pending, Until::kDone, deadline);
}

bool Driver::await(const PendingRequest& pending, const PendingPtr* submitted, Until until,
                   Deadline deadline) {
  const auto begin = Clock::now();
  bool drove = false;
  bool leaves_work = false;
  note_overdue(pending, begin + kUrgeTime);
  waiting_callers_.fetch_add(1);
  for (int tries = 0; !drove && !has_come(pending, until) && tries < pace_.spin_polls + 64;
       ++tries) {
    if (!driven_.progress().try_lock()) {
      // For whoever drives.
      if (submitted != nullptr) parts_.submission.queue(*std::exchange(submitted, nullptr));
      if (tries % 16 == 15) sched_yield();
      relax();
      continue;
    }
    if (submitted != nullptr) driven_.submit(*std::exchange(submitted, nullptr));
    drive(pending, until, deadline);
    leaves_work = driven_.may_be_needed();
    driven_.progress().unlock();
    drove = true;
  }
  // seq_cst, as the thread's store of stepped_back_ and its load of the callers before it sleeps:
  // either it sees that nobody waits any more, or we see that it stepped back for us, and ring.
  // Where nothing else wakes it, it may sleep its whole tick because we were driving.
  waiting_callers_.fetch_sub(1);
  if (!drove || (leaves_work && (stepped_back_.load() || polling_.load()))) ring();
  parts_.completion.run_callbacks();
  if (!has_come(pending, until)) {
    wake();
    parts_.completion.wait_until([&] { return has_come(pending, until); }, deadline);
  }
  const Clock::duration waited = Clock::now() - begin;
  waited_ns_.fetch_add(waited.count());
  pending.trace.waited(pending.request.name, waited);
  return has_come(pending, until);
}

void Driver::send_last_words() {
  const Deadline brief = Deadline::after(kTick);
  for (bool sent = false; !sent && !brief.has_passed();) {
    Lock lock(driven_.progress());
    sent = driven_.send_rest();
    if (!sent) sched_yield();
  }
}

void Driver::note_overdue(const PendingRequest& pending, Clock::time_point time) {
  // relaxed: see enable_urging().
  if (!may_urge_.load(std::memory_order_relaxed)) return;
  const Clock::rep at = time.time_since_epoch().count();
  // relaxed: read under the progress lock after urge_at(), or at the next tick.
  if (at < pending.overdue_at.load(std::memory_order_relaxed)) {
    pending.overdue_at.store(at, std::memory_order_relaxed);
  }
  urge_at(time);
}

void Driver::urge_at(Clock::time_point time) {
  const Clock::rep at = time.time_since_epoch().count();
  // seq_cst, and before the look whether the thread sleeps: it sleeps no longer than this.
  for (Clock::rep known = urge_at_.load(); at < known;) {
    if (urge_at_.compare_exchange_weak(known, at)) break;
  }
}

Deadline Driver::next_urge() const {
  return Deadline::at(Clock::time_point(Clock::duration(urge_at_.load())));
}

void Driver::urge_if_due(Clock::time_point now, bool in_any_case) {
  if (!in_any_case && now.time_since_epoch().count() < urge_at_.load()) return;
  urge_at_.exchange(kNoUrge);  // who waits from now on sets it again; the others are seen below
  urge_at(driven_.urge(now));
}

}  // namespace hvd
