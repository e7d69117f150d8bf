// SPDX-License-Identifier: Apache-2.0
#include "engine/timeline/timeline.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/result.h"
#include "engine/timeline/timeline_text.h"

namespace hvd {
namespace {

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

Result<UniqueFd> open_file(const std::string& path, int rank) {
  // O_NONBLOCK: a pipe that nobody reads is an error, not a wait without end.
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  UniqueFd file(::open(path.c_str(), kFlags, 0666));
  if (!file.is_open()) return timeline_failure("open", path, rank, errno);
  if (::fcntl(file.get(), F_SETFL, O_WRONLY) != 0)
    return timeline_failure("open", path, rank, errno);
  return file;
}

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

Timeline::~Timeline() {
  Lock control(control_);
  static_cast<void>(end());
  if (writer_.joinable()) writer_.detach();  // the tape is its own, too
}

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
  if (writer_.joinable()) return hanging();
  std::string path = path_for(options.path, rank_);
  HVD_TRY_ASSIGN(UniqueFd file, open_file(path, rank_));
  path_ = std::move(path);
  std::string text = TimelineText(rank_).begin(host_, Clock::now(), unix_seconds());
  tape_->open(options.mark_batches);
  writer_ = std::thread(
      [tape = tape_, file = std::move(file), path = path_, text = std::move(text)]() mutable {
        tape->write(std::move(file), path, std::move(text));
      });
  return Status::ok();
}

Status Timeline::stop() {
  Lock control(control_);
  return end();
}

Status Timeline::end() {
  tape_->close();
  if (!writer_.joinable()) return Status::ok();
  const auto patience = hangs_ ? std::chrono::milliseconds(0) : end_limit_;
  if (!tape_->wait_until_written(Deadline::after(patience))) {
    Status failure = hanging();
    if (!std::exchange(hangs_, true)) {
      log(LogLevel::kWarning, "timeline", "{}", failure.message());
    }
    return failure;
  }
  hangs_ = false;
  writer_.join();
  return tape_->take_failure();
}

Status Timeline::hanging() const {
  return error(Code::kTimeout,
               "rank {}: the end of the timeline '{}' is not written after {:.6g} s: its file "
               "system does not answer, or nobody reads the pipe; the file is not whole",
               rank_, path_, std::chrono::duration<double>(end_limit_).count());
}

TracedRequest Timeline::submitted(std::string_view operation, std::string_view name,
                                  int process_set, std::size_t bytes, bool has_own_row) {
  TimelineEvent event;
  event.kind = TimelineEvent::Kind::kSubmitted;
  event.has_own_row = has_own_row;
  event.process_set = process_set;
  event.number = bytes;
  event.operation = operation;
  event.text = name;
  const std::uint64_t number = tape_->add_request(std::move(event));
  if (number == 0) return {};
  return {this, number};
}

void Timeline::decided_batch(std::uint64_t number, int process_set, std::size_t requests) {
  TimelineEvent event;
  event.kind = TimelineEvent::Kind::kBatch;
  event.number = number;
  event.process_set = process_set;
  event.requests = requests;
  tape_->add_batch(std::move(event));
}

void TracedRequest::record_decided(std::uint64_t batch) const {
  TimelineEvent event;
  event.kind = TimelineEvent::Kind::kDecided;
  event.request = number_;
  event.number = batch;
  timeline_->tape_->add(std::move(event));
}

void TracedRequest::record_started() const {
  TimelineEvent event;
  event.kind = TimelineEvent::Kind::kStarted;
  event.request = number_;
  timeline_->tape_->add(std::move(event));
}

void TracedRequest::record_completed(const Status& status) const {
  TimelineEvent event;
  event.kind = TimelineEvent::Kind::kCompleted;
  event.request = number_;
  event.code = status.code();
  event.text = status.message();
  timeline_->tape_->add(std::move(event));
}

void TracedRequest::record_waited(std::string_view name, Clock::duration length) const {
  TimelineEvent event;
  event.kind = TimelineEvent::Kind::kWaited;
  event.number = static_cast<std::uint64_t>(::syscall(SYS_gettid));
  event.length = length;
  event.text = name;
  timeline_->tape_->add_if_room(std::move(event));
}

}  // namespace hvd
