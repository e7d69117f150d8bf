// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "base/deadline.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/start_thread.h"
#include "base/unique_fd.h"

namespace hvd {

/// Asks the same question again and again, on a thread of its own: it may take long, and whoever
/// wants the answers must not wait. The destructor ends the thread. Thread-safe.
template <typename Answer>
class Periodic {
 public:
  /// To end early once the descriptor `interrupt` is readable.
  using Ask = std::function<Result<Answer>(int interrupt)>;

  /// `pause`: between an answer and the next question, the first included.
  static Result<std::unique_ptr<Periodic>> start(Ask ask, std::chrono::milliseconds pause) {
    std::unique_ptr<Periodic> made(new Periodic(std::move(ask), pause));
    if (!made->bell_.is_open() || !made->end_.is_open()) return Status::system("eventfd", errno);
    HVD_TRY_ASSIGN(made->thread_, start_thread([self = made.get()] { self->work(); }));
    return made;
  }
  ~Periodic() {
    if (!thread_.joinable()) return;
    (void)::eventfd_write(end_.get(), 1);
    {
      const Lock lock(mutex_);
      ends_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }
  Periodic(const Periodic&) = delete;
  Periodic& operator=(const Periodic&) = delete;

  /// Readable when there is an answer.
  int events() const { return bell_.get(); }
  /// The last answer since the call before.
  std::optional<Result<Answer>> take() {
    const Lock lock(mutex_);
    std::uint64_t count = 0;
    (void)::eventfd_read(bell_.get(), &count);
    return std::exchange(answer_, std::nullopt);
  }

 private:
  Periodic(Ask ask, std::chrono::milliseconds pause) : ask_(std::move(ask)), pause_(pause) {}

  void work() {
    while (!wait()) {
      Result<Answer> answer = ask_(end_.get());
      const Lock lock(mutex_);
      answer_ = std::move(answer);
      (void)::eventfd_write(bell_.get(), 1);
    }
  }

  /// True: it is to end.
  bool wait() {
    const Deadline next = Deadline::after(pause_);
    const Lock lock(mutex_);
    while (!ends_ && changed_.wait_until(mutex_, next)) {
    }
    return ends_;
  }

  Ask ask_;
  std::chrono::milliseconds pause_;
  UniqueFd bell_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  UniqueFd end_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  Mutex mutex_;
  CondVar changed_;
  bool ends_ HVD_GUARDED_BY(mutex_) = false;
  std::optional<Result<Answer>> answer_ HVD_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace hvd
