// SPDX-License-Identifier: Apache-2.0
#include "engine/timeline/timeline_tape.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "base/write_all.h"
#include "engine/timeline/timeline_text.h"

namespace hvd {
namespace {

constexpr std::chrono::seconds kInterval{1};
/// Events for which the writer is woken before its time.
constexpr std::size_t kMany = 4096;

}  // namespace

Status timeline_failure(std::string_view what, const std::string& path, int rank,
                        int error_number) {
  return Status::system(format_text("rank {}: cannot {} the timeline '{}'", rank, what, path),
                        error_number);
}

void TimelineTape::set_open(bool is_open) {
  takes_ = is_open;
  // relaxed: see is_open().
  is_open_.store(is_open, std::memory_order_relaxed);
}

void TimelineTape::open(bool mark_batches) {
  Lock lock(mutex_);
  left_out_ = 0;
  marks_batches_ = mark_batches;
  is_written_ = false;
  set_open(true);
}

void TimelineTape::close() {
  {
    Lock lock(mutex_);
    set_open(false);
  }
  wake_.notify_one();
}

bool TimelineTape::append(TimelineEvent event, bool may_be_left_out) {
  if (!takes_) return false;
  if (may_be_left_out && waiting_.size() >= most_waiting_) {
    ++left_out_;
    return false;
  }
  event.time = Clock::now();  // under the lock: times ascend as the events do
  waiting_.push_back(std::move(event));
  if (waiting_.size() == kMany) wake_.notify_one();
  return true;
}

void TimelineTape::add(TimelineEvent event) {
  Lock lock(mutex_);
  append(std::move(event), false);
}

void TimelineTape::add_if_room(TimelineEvent event) {
  Lock lock(mutex_);
  append(std::move(event), true);
}

std::uint64_t TimelineTape::add_request(TimelineEvent event) {
  Lock lock(mutex_);
  event.request = last_request_ + 1;
  if (!append(std::move(event), true)) return 0;
  return ++last_request_;
}

void TimelineTape::add_batch(TimelineEvent event) {
  Lock lock(mutex_);
  if (marks_batches_) append(std::move(event), true);
}

bool TimelineTape::next(std::vector<TimelineEvent>& taken, std::uint64_t& left_out) {
  taken.clear();
  Lock lock(mutex_);
  if (takes_ && waiting_.size() < kMany) {
    wake_.wait_until(mutex_, Deadline::after(kInterval));
  }
  taken.swap(waiting_);
  left_out = left_out_;
  return takes_;
}

void TimelineTape::give_up(const Status& failure) {
  log(LogLevel::kWarning, "timeline", "{}; it ends there", failure.message());
  Lock lock(mutex_);
  set_open(false);
  waiting_.clear();
  failure_ = failure;
}

void TimelineTape::write(UniqueFd file, const std::string& path, std::string text) {
  write_events(std::move(file), path, std::move(text));
  Lock lock(mutex_);
  is_written_ = true;
  written_.notify_all();
}

void TimelineTape::write_events(UniqueFd file, const std::string& path, std::string text) {
  TimelineText form(rank_);
  std::vector<TimelineEvent> taken;
  std::uint64_t told = 0;
  for (bool more = true; more;) {
    if (const int failed = write_all(file.get(), text); failed != 0) {
      return give_up(timeline_failure("write", path, rank_, failed));
    }
    text.clear();
    std::uint64_t left_out = 0;
    more = next(taken, left_out);
    for (const TimelineEvent& event : taken) form.append(event, text);
    if (left_out > told) form.append_left_out(left_out, Clock::now(), text);
    told = left_out;
  }
  text += form.end(told, Clock::now());
  int failed = write_all(file.get(), text);
  if (failed == 0 && ::close(file.release()) != 0) failed = errno;
  if (failed != 0) give_up(timeline_failure("write", path, rank_, failed));
}

bool TimelineTape::wait_until_written(Deadline deadline) {
  Lock lock(mutex_);
  while (!is_written_) {
    if (!written_.wait_until(mutex_, deadline)) return is_written_;
  }
  return true;
}

Status TimelineTape::take_failure() {
  Lock lock(mutex_);
  return std::exchange(failure_, Status::ok());
}

}  // namespace hvd
