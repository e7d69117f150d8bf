// SPDX-License-Identifier: Apache-2.0
#include "device/timed_call.h"

#include <memory>
#include <thread>
#include <utility>

#include "base/mutex.h"

namespace hvd {
namespace {

/// Shared by the thread that calls and the one that waits for it, at most so long.
struct Ending {
  Mutex mutex;
  CondVar changed;
  bool is_over HVD_GUARDED_BY(mutex) = false;
};

}  // namespace

bool ends_in_time(std::function<void()> call, Deadline deadline) {
  const auto ending = std::make_shared<Ending>();
  std::thread([ending, call = std::move(call)] {
    call();
    Lock lock(ending->mutex);
    ending->is_over = true;
    ending->changed.notify_all();
  }).detach();
  Lock lock(ending->mutex);
  while (!ending->is_over) {
    if (!ending->changed.wait_until(ending->mutex, deadline)) return ending->is_over;
  }
  return true;
}

}  // namespace hvd
