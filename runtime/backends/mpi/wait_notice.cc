// SPDX-License-Identifier: Apache-2.0
#include "backends/mpi/wait_notice.h"

#include <utility>

#include "base/log.h"

namespace hvd {

WaitNotice::WaitNotice(std::string what, std::chrono::milliseconds period)
    : what_(std::move(what)), period_(period), thread_([this] { watch(); }) {}

WaitNotice::~WaitNotice() {
  {
    Lock lock(mutex_);
    over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

int WaitNotice::count() const {
  Lock lock(mutex_);
  return count_;
}

void WaitNotice::watch() {
  const auto begin = Clock::now();
  Lock lock(mutex_);
  while (!over_) {
    const Deadline next = Deadline::at(begin + (count_ + 1) * period_);
    if (changed_.wait_until(mutex_, next) || over_) continue;
    ++count_;
    const std::chrono::duration<double> waited = Clock::now() - begin;
    log(LogLevel::kWarning, "mpi", "waits for {:.0f} s now: {}", waited.count(), what_);
  }
}

}  // namespace hvd
