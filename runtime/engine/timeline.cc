// SPDX-License-Identifier: Apache-2.0
#include "engine/timeline.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/result.h"
#include "engine/timeline_text.h"

namespace hvd {
namespace {

constexpr std::chrono::seconds kInterval{1};
/// Events for which the writer is woken before its time.
constexpr std::size_t kMany = 4096;
constexpr std::string_view kRankMark = "{rank}";

/// The path with the rank in it, where it has a place for it.
std::string path_for(std::string path, int rank) {
  const std::string number = format_text("{}", rank);
  for (auto at = path.find(kRankMark); at != std::string::npos; at = path.find(kRankMark, at)) {
    path.replace(at, kRankMark.size(), number);
    at += number.size();
  }
  return path;
}

Status cannot(std::string_view what, const std::string& path, int rank, int error_number) {
  return Status::system(format_text("rank {}: cannot {} the timeline '{}'", rank, what, path),
                        error_number);
}

Result<UniqueFd> open_file(const std::string& path, int rank) {
  // O_NONBLOCK: a pipe that nobody reads is an error, not a wait without end.
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  UniqueFd file(::open(path.c_str(), kFlags, 0666));
  if (!file.is_open()) return cannot("open", path, rank, errno);
  if (::fcntl(file.get(), F_SETFL, O_WRONLY) != 0) return cannot("open", path, rank, errno);
  return file;
}

/// 0, or the errno of the failure.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count < 0 && errno != EINTR) return errno;
    if (count > 0) text.remove_prefix(static_cast<std::size_t>(count));
  }
  return 0;
}

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

Timeline::~Timeline() { static_cast<void>(stop()); }

Status Timeline::start(const TimelineOptions& options) {
  if (options.path.empty()) {
    return error(Code::kInvalidArgument, "rank {}: the timeline has no file; name one", rank_);
  }
  if (rank_ != 0 && options.path.find(kRankMark) == std::string::npos) return Status::ok();
  Lock control(control_);
  if (is_on()) {
    return error(Code::kInvalidArgument,
                 "rank {}: the timeline goes to '{}' already; stop it before it goes to '{}'",
                 rank_, path_, options.path);
  }
  static_cast<void>(end());  // of one that could not be written; the log has it
  std::string path = path_for(options.path, rank_);
  HVD_TRY_ASSIGN(UniqueFd file, open_file(path, rank_));
  path_ = std::move(path);
  std::string text = TimelineText(rank_).begin(host_, Clock::now(), unix_seconds());
  {
    Lock lock(mutex_);
    left_out_ = 0;
    marks_batches_ = options.mark_batches;
    takes_ = true;
    // relaxed: see is_on().
    on_.store(true, std::memory_order_relaxed);
  }
  writer_ =
      std::thread([this, file = std::move(file), path = path_, text = std::move(text)]() mutable {
        run_writer(std::move(file), path, std::move(text));
      });
  return Status::ok();
}

Status Timeline::stop() {
  Lock control(control_);
  return end();
}

Status Timeline::end() {
  {
    Lock lock(mutex_);
    takes_ = false;
    // relaxed: see is_on().
    on_.store(false, std::memory_order_relaxed);
  }
  if (!writer_.joinable()) return Status::ok();
  wake_.notify_one();
  writer_.join();
  Lock lock(mutex_);
  return std::exchange(failure_, Status::ok());
}

bool Timeline::add(TimelineEvent event, bool may_be_left_out) {
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

void Timeline::take_down(TimelineEvent event, bool may_be_left_out) {
  Lock lock(mutex_);
  add(std::move(event), may_be_left_out);
}

TracedRequest Timeline::submitted(const Request& request, std::size_t bytes, bool has_own_row) {
  TimelineEvent event;
  event.kind = TimelineEvent::Kind::kSubmitted;
  event.has_own_row = has_own_row;
  event.process_set = request.process_set;
  event.number = bytes;
  event.operation = kind_name(request.operation);
  event.text = request.name;
  Lock lock(mutex_);
  const std::uint64_t number = last_request_ + 1;
  event.request = number;
  if (!add(std::move(event), true)) return {};
  last_request_ = number;
  return {this, number};
}

void Timeline::decided_batch(std::uint64_t number, int process_set, std::size_t requests) {
  TimelineEvent event;
  event.kind = TimelineEvent::Kind::kBatch;
  event.number = number;
  event.process_set = process_set;
  event.requests = requests;
  Lock lock(mutex_);
  if (marks_batches_) add(std::move(event), true);
}

void TracedRequest::record_decided(std::uint64_t batch) const {
  TimelineEvent event;
  event.kind = TimelineEvent::Kind::kDecided;
  event.request = number_;
  event.number = batch;
  timeline_->take_down(std::move(event), false);
}

void TracedRequest::record_started() const {
  TimelineEvent event;
  event.kind = TimelineEvent::Kind::kStarted;
  event.request = number_;
  timeline_->take_down(std::move(event), false);
}

void TracedRequest::record_completed(const Status& status) const {
  TimelineEvent event;
  event.kind = TimelineEvent::Kind::kCompleted;
  event.request = number_;
  event.code = status.code();
  event.text = status.message();
  timeline_->take_down(std::move(event), false);
}

void TracedRequest::record_waited(std::string_view name, Clock::duration length) const {
  TimelineEvent event;
  event.kind = TimelineEvent::Kind::kWaited;
  event.number = static_cast<std::uint64_t>(::syscall(SYS_gettid));
  event.length = length;
  event.text = name;
  timeline_->take_down(std::move(event), true);
}

bool Timeline::next(std::vector<TimelineEvent>& taken, std::uint64_t& left_out) {
  taken.clear();
  Lock lock(mutex_);
  if (takes_ && waiting_.size() < kMany) {
    wake_.wait_until(mutex_, Deadline::after(kInterval));
  }
  taken.swap(waiting_);
  left_out = left_out_;
  return takes_;
}

void Timeline::give_up(const Status& failure) {
  log(LogLevel::kWarning, "timeline", "{}; it ends there", failure.message());
  Lock lock(mutex_);
  takes_ = false;
  // relaxed: see is_on().
  on_.store(false, std::memory_order_relaxed);
  waiting_.clear();
  failure_ = failure;
}

void Timeline::run_writer(UniqueFd file, const std::string& path, std::string text) {
  TimelineText form(rank_);
  std::vector<TimelineEvent> taken;
  std::uint64_t told = 0;
  for (bool more = true; more;) {
    if (const int failed = write_all(file.get(), text); failed != 0) {
      return give_up(cannot("write", path, rank_, failed));
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
  if (failed != 0) give_up(cannot("write", path, rank_, failed));
}

}  // namespace hvd
