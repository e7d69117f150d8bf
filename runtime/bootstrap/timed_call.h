// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "base/deadline.h"
#include "base/mutex.h"
#include "base/result.h"

namespace hvd {

/// The value of `call`, which is made on a thread of its own: for functions of others' libraries
/// that take no deadline. kTimeout names `what` and leaves the thread to itself, so `call` must own
/// all that it uses.
template <typename Value>
Result<Value> call_in_time(std::string_view what, std::function<Value()> call, Deadline deadline) {
  struct Shared {
    Mutex mutex;
    CondVar changed;
    std::optional<Value> value HVD_GUARDED_BY(mutex);
  };
  const auto shared = std::make_shared<Shared>();  // by the thread and by whoever waits for it
  std::thread([shared, call = std::move(call)] {
    Value value = call();
    const Lock lock(shared->mutex);
    shared->value.emplace(std::move(value));
    shared->changed.notify_all();
  }).detach();
  const Lock lock(shared->mutex);
  while (!shared->value.has_value()) {
    if (shared->changed.wait_until(shared->mutex, deadline)) continue;
    if (shared->value.has_value()) break;
    return error(Code::kTimeout, "{} has not returned within the start timeout", what);
  }
  return std::move(*shared->value);
}

}  // namespace hvd
