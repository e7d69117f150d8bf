// SPDX-License-Identifier: Apache-2.0
#include "device/timed_call.h"

#include <thread>
#include <utility>

#include "base/mutex.h"

namespace hvd {

struct TimedCall::Ending {
  Mutex mutex;
  CondVar changed;
  bool is_over HVD_GUARDED_BY(mutex) = false;
};

TimedCall::TimedCall(std::function<void()> call) : ending_(std::make_shared<Ending>()) {
  std::thread([ending = ending_, call = std::move(call)]() mutable {
    call();
    call = nullptr;
    Lock lock(ending->mutex);
    ending->is_over = true;
    ending->changed.notify_all();
  }).detach();
}

bool TimedCall::ends_by(Deadline deadline) const {
  Lock lock(ending_->mutex);
  while (!ending_->is_over) {
    if (!ending_->changed.wait_until(ending_->mutex, deadline)) return ending_->is_over;
  }
  return true;
}

}  // namespace hvd
