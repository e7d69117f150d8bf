// SPDX-License-Identifier: Apache-2.0
#include "engine/request/completion.h"

#include <utility>

namespace hvd {

PendingPtr Completion::add(Request&& request) {
  PendingPtr pending = make_pending(std::move(request));
  Lock lock(mutex_);
  pending->handle = by_handle_.add(pending);
  return pending;
}

std::uint64_t Completion::add(const PendingPtr& pending) {
  Lock lock(mutex_);
  return by_handle_.add(pending);
}

Result<PendingPtr> Completion::find_locked(std::uint64_t handle) {
  const PendingPtr* const found = by_handle_.find(handle);
  if (found == nullptr) {
    return error(Code::kInvalidArgument,
                 "handle {} is unknown: never given, of a job before hvd_shutdown(), or already "
                 "waited for and released",
                 handle);
  }
  return *found;
}

Result<PendingPtr> Completion::find(std::uint64_t handle) {
  Lock lock(mutex_);
  return find_locked(handle);
}

Result<std::vector<PendingPtr>> Completion::find(std::span<const std::uint64_t> handles) {
  std::vector<PendingPtr> all;
  all.reserve(handles.size());
  Lock lock(mutex_);
  for (const std::uint64_t handle : handles) {
    HVD_TRY_ASSIGN(auto found, find_locked(handle));
    all.push_back(std::move(found));
  }
  return all;
}

PendingPtr Completion::release(std::uint64_t handle) {
  Lock lock(mutex_);
  return by_handle_.take(handle);
}

void Completion::finish(const PendingPtr& pending, const Status& status) {
  // relaxed: while it is under way only the holder of the progress lock, which is us, sets it.
  if (pending->done.load(std::memory_order_relaxed)) return;
  pending->status = status;
  pending->trace.completed(status);
  // seq_cst: publishes the status, and comes before the look at the sleepers.
  pending->done.store(true);
  if (pending->request.on_complete) {
    Lock lock(mutex_);
    callbacks_.push_back(pending);
    has_callbacks_.store(true);
  }
  wake_all();
}

void Completion::wake_all() {
  if (sleepers_.load() == 0) return;
  Lock lock(mutex_);
  changed_.notify_all();
}

void Completion::run_callbacks() {
  if (!has_callbacks_.load()) return;
  std::vector<PendingPtr> ready;
  {
    Lock lock(mutex_);
    ready.swap(callbacks_);
    has_callbacks_.store(false);
  }
  for (const PendingPtr& pending : ready) pending->request.on_complete(pending->status);
}

}  // namespace hvd
