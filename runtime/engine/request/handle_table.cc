// SPDX-License-Identifier: Apache-2.0
#include "engine/request/handle_table.h"

#include <utility>

namespace hvd {

std::uint64_t HandleTable::add(PendingPtr pending) {
  if (2 * used_ >= places_.size()) grow();
  while (places_[index_of(next_)].pending != nullptr) ++next_;
  places_[index_of(next_)] = {next_, std::move(pending)};
  ++used_;
  return next_++;
}

const PendingPtr* HandleTable::find(std::uint64_t handle) const {
  if (places_.empty()) return nullptr;
  const Place& place = places_[index_of(handle)];
  return place.pending != nullptr && place.handle == handle ? &place.pending : nullptr;
}

PendingPtr HandleTable::take(std::uint64_t handle) {
  if (find(handle) == nullptr) return nullptr;
  --used_;
  return std::move(places_[index_of(handle)].pending);
}

/// Twice the places: handles that had different ones have different ones again.
void HandleTable::grow() {
  constexpr std::size_t kFirstPlaces = 64;
  std::vector<Place> before(places_.empty() ? kFirstPlaces : 2 * places_.size());
  before.swap(places_);
  for (Place& place : before) {
    if (place.pending != nullptr) places_[index_of(place.handle)] = std::move(place);
  }
}

}  // namespace hvd
