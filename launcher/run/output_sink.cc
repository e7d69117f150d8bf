// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/output_sink.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/write_all.h"

namespace hvd {

int SinkTarget::open() {
  if (path.empty() || file.is_open()) return 0;
  constexpr mode_t kMode = 0644;
  const int how = was_open ? O_APPEND : O_TRUNC;
  file.reset(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | how, kMode));
  if (!file.is_open()) return errno;
  fd = file.get();
  was_open = true;
  return 0;
}

int SinkTarget::close() {
  const int closing = path.empty() ? ::fcntl(fd, F_DUPFD_CLOEXEC, 0) : file.release();
  if (!path.empty()) fd = -1;
  if (closing < 0 || ::close(closing) == 0) return 0;
  return errno == EINTR ? 0 : errno;
}

OutputSink::OutputSink(std::shared_ptr<UniqueFd> wake) : state_(std::make_shared<State>()) {
  state_->wake = std::move(wake);
}

OutputSink::~OutputSink() {
  if (!thread_.joinable()) return;
  const bool is_idle = is_empty();
  {
    const std::lock_guard lock(state_->mutex);
    state_->is_over = true;
  }
  state_->change.notify_one();
  if (is_idle) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void OutputSink::add(const std::shared_ptr<SinkTarget>& target, const std::string& text) {
  if (text.empty()) return;
  {
    const std::lock_guard lock(state_->mutex);
    std::deque<Piece>& queue = state_->queue;
    // Pieces of one write stay whole; many small ones become few.
    constexpr std::size_t kPiece = std::size_t{64} * 1024;
    if (!queue.empty() && queue.back().target == target && queue.back().text.size() < kPiece) {
      queue.back().text += text;
    } else {
      queue.push_back({target, text});
    }
    state_->waiting += text.size();
  }
  start_thread();
}

void OutputSink::close(const std::shared_ptr<SinkTarget>& target) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->queue.push_back({target, "", true});
  }
  start_thread();
}

void OutputSink::start_thread() {
  state_->change.notify_one();
  if (!thread_.joinable()) {
    thread_ = std::thread([state = state_] { write_on(*state); });
  }
}

std::size_t OutputSink::waiting() const {
  const std::lock_guard lock(state_->mutex);
  return state_->waiting;
}

std::size_t OutputSink::finished() const {
  const std::lock_guard lock(state_->mutex);
  return state_->finished;
}

bool OutputSink::is_empty() const {
  const std::lock_guard lock(state_->mutex);
  return state_->queue.empty() && !state_->is_writing;
}

bool OutputSink::is_done() const {
  const std::lock_guard lock(state_->mutex);
  return state_->queue.empty() && !state_->is_writing && state_->failure.error_number == 0;
}

OutputSink::Failure OutputSink::take_failure() {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->failure, {});
}

void OutputSink::write_on(State& state) {
  std::unique_lock lock(state.mutex);
  while (true) {
    state.change.wait(lock, [&] { return state.is_over || !state.queue.empty(); });
    if (state.is_over) return;
    const Piece piece = std::move(state.queue.front());
    state.queue.pop_front();
    state.is_writing = true;
    lock.unlock();
    int error_number = 0;
    if (piece.closes) {
      error_number = piece.target->close();
    } else {
      error_number = piece.target->open();
      if (error_number == 0) error_number = write_all(piece.target->fd, piece.text);
    }
    lock.lock();
    state.is_writing = false;
    ++state.finished;
    const bool was_full = state.waiting >= kFull;
    state.waiting -= piece.text.size();
    if (error_number != 0 && state.failure.error_number == 0) {
      state.failure = {piece.target, error_number};
    }
    const bool has_room = was_full && state.waiting < kFull;
    if (error_number == 0 && !state.queue.empty() && !has_room) continue;
    (void)::eventfd_write(state.wake->get(), 1);
  }
}

}  // namespace hvd
