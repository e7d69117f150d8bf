// SPDX-License-Identifier: Apache-2.0
#include "engine/request/submission.h"

#include <charconv>

namespace hvd {
namespace {

/// Between kind and number in the names of requests that come without one.
constexpr std::string_view kUnnamed = ".noname.";

}  // namespace

void Submission::begin(PendingRequest& pending) {
  Request& request = pending.request;
  if (request.name.empty()) {
    Lock lock(mutex_);
    pending.call = ++unnamed_[request.process_set][request.operation.index()];
    request.name =
        format_text("{}{}{}", kind_name(request.operation), kUnnamed, (pending.call - 1) % kPlaces);
  }
  if (timeline_.is_on()) {
    pending.trace =
        timeline_.submitted(kind_name(request.operation), request.name, request.process_set,
                            pending.description.bytes(), pending.cacheable && pending.call == 0);
  }
}

void Submission::push(const PendingPtr& pending) {
  begin(*pending);
  queue(pending);
}

void Submission::queue(const PendingPtr& pending) {
  Lock lock(mutex_);
  queue_.push_back(pending);
  count_.store(queue_.size());
}

void Submission::pass_over(int process_set, std::string_view name) {
  const auto kind_end = name.find(kUnnamed);
  if (kind_end == std::string_view::npos) return;
  std::uint64_t number = 0;
  const std::string_view digits = name.substr(kind_end + kUnnamed.size());
  if (std::from_chars(digits.data(), digits.data() + digits.size(), number).ec != std::errc()) {
    return;
  }
  Lock lock(mutex_);
  for (std::size_t kind = 0; kind < kKindCount; ++kind) {
    if (kKinds[kind].name != name.substr(0, kind_end)) continue;
    std::uint64_t& calls = unnamed_[process_set][kind];
    // The call nearest to our count that has this place: others may pass it in another order.
    const std::uint64_t ahead = (number % kPlaces + kPlaces - calls % kPlaces) % kPlaces;
    if (ahead < kPlaces / 2) calls += ahead + 1;
  }
}

bool Submission::drain(std::vector<PendingPtr>& taken) {
  if (is_empty()) return false;
  Lock lock(mutex_);
  if (taken.empty()) {
    taken.swap(queue_);
  } else {
    for (PendingPtr& pending : queue_) taken.push_back(std::move(pending));
    queue_.clear();
  }
  count_.store(0);
  return true;
}

}  // namespace hvd
