// SPDX-License-Identifier: Apache-2.0
#include "engine/plane/planes.h"

#include <algorithm>

namespace hvd {

SetPlane* Planes::find(int process_set) const {
  for (const auto& plane : planes_) {
    if (plane->process_set() == process_set) return plane.get();
  }
  return nullptr;
}

Result<SetPlane*> Planes::form(int process_set, const RankSet& ranks, int rank) {
  last_formed_ = process_set;
  launch_order_.add_set(process_set, ranks.ranks());
  if (!ranks.contains(rank)) return static_cast<SetPlane*>(nullptr);
  if (forming_ == nullptr) {
    return error(Code::kInternal, "rank {}: process set {} is not connected here", rank,
                 process_set);
  }
  forming_->set_number(process_set);
  planes_.push_back(std::move(forming_));
  return planes_.back().get();
}

std::unique_ptr<SetPlane> Planes::retire(int process_set) {
  launch_order_.remove_set(process_set);
  const auto found = std::find_if(planes_.begin(), planes_.end(), [&](const auto& plane) {
    return plane->process_set() == process_set;
  });
  if (found == planes_.end()) return nullptr;
  auto plane = std::move(*found);
  planes_.erase(found);
  return plane;
}

bool Planes::needs_polling() const {
  return std::any_of(planes_.begin(), planes_.end(),
                     [](const auto& plane) { return plane->needs_polling(); });
}

bool Planes::has_gpu_work() const {
  return std::any_of(planes_.begin(), planes_.end(),
                     [](const auto& plane) { return plane->has_gpu_work(); });
}

bool Planes::has_batches() const {
  return std::any_of(planes_.begin(), planes_.end(),
                     [](const auto& plane) { return plane->has_batches(); });
}

bool Planes::has_batch_with(int rank) const {
  return std::any_of(planes_.begin(), planes_.end(), [rank](const auto& plane) {
    return plane->has_batches() && plane->has_member(rank);
  });
}

const Link* Planes::find_silent(std::chrono::milliseconds limit, bool in_all) const {
  for (const auto& plane : planes_) {
    if (!in_all && !plane->has_batches()) continue;
    for (const auto& link : plane->lane()) {
      if (link != nullptr && link->unanswered() >= limit) return link.get();
    }
  }
  return nullptr;
}

bool Planes::awaits_answer() const {
  return std::any_of(planes_.begin(), planes_.end(), [](const auto& plane) {
    const auto lane = plane->lane();
    return std::any_of(lane.begin(), lane.end(), [](const auto& link) {
      return link != nullptr && link->unanswered().count() > 0;
    });
  });
}

}  // namespace hvd
