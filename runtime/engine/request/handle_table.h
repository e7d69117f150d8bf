// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/request/pending_request.h"

namespace hvd {

/// Requests by handle. Handles ascend, and no two requests get the same one. A place is that of its
/// handle modulo the number of places, which is at least twice that of requests: a handle whose
/// place is taken is left out. Allocates only to grow. One thread at a time.
class HandleTable {
 public:
  /// Counts handles from `first` on.
  explicit HandleTable(std::uint64_t first) : next_(first) {}

  std::uint64_t add(PendingPtr pending);
  /// Null: unknown.
  const PendingPtr* find(std::uint64_t handle) const;
  /// Takes it out; null: unknown.
  PendingPtr take(std::uint64_t handle);

 private:
  struct Place {
    std::uint64_t handle = 0;
    PendingPtr pending;  ///< Null: free.
  };

  std::size_t index_of(std::uint64_t handle) const { return handle % places_.size(); }
  void grow();

  std::vector<Place> places_;
  std::size_t used_ = 0;
  std::uint64_t next_;
};

}  // namespace hvd
