// SPDX-License-Identifier: Apache-2.0
#include "engine/request/kept_requests.h"

#include <functional>
#include <utility>

namespace hvd {

class KeptRequests::Visit {
 public:
  // acquire and release: what is kept there is the one thing that visits hand on.
  explicit Visit(Place& place)
      : place_(place), is_first_(!place.is_taken.exchange(true, std::memory_order_acquire)) {}
  ~Visit() {
    if (is_first_) place_.is_taken.store(false, std::memory_order_release);
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
  /// Null: another thread is here.
  PendingPtr* kept() { return is_first_ ? &place_.kept : nullptr; }

 private:
  Place& place_;
  const bool is_first_;
};

KeptRequests::Key KeptRequests::key_of(std::string_view text) {
  return {text, text.empty() ? 0 : std::hash<std::string_view>()(text)};
}

PendingPtr KeptRequests::take(const Key& key) {
  if (key.text.empty()) return nullptr;
  Visit visit((*places_)[key.hash % kPlaces]);
  PendingPtr* const kept = visit.kept();
  if (kept == nullptr || *kept == nullptr || (*kept)->key != key.text) return nullptr;
  return std::move(*kept);
}

void KeptRequests::keep(PendingPtr pending) {
  if (pending->key.empty() || !pending->done.load() || !pending->status.is_ok()) return;
  for (GatherResult& result : pending->gathered) result.clear();
  Visit visit((*places_)[pending->key_hash % kPlaces]);
  // What was there ends with `pending`, after the visit.
  if (PendingPtr* const kept = visit.kept()) kept->swap(pending);
}

void KeptRequests::keep_released(PendingPtr pending) {
  if (pending.use_count() != 1) return;
  // That was a relaxed look. Copies that come and go acquire what the last of the others released.
  PendingPtr(pending).reset();
  keep(std::move(pending));
}

}  // namespace hvd
