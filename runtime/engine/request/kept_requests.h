// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <string_view>

#include "engine/request/pending_request.h"

namespace hvd {

/// Requests that are done and that their callers bring again, as a loop does: the same in all but
/// the memory of their tensors. Who takes one up need not read, describe and allocate it anew.
/// Thread-safe; nobody waits here.
class KeptRequests {
 public:
  /// All that a request says except for the memory of its tensors; empty: it is not kept.
  struct Key {
    std::string_view text;
    std::size_t hash = 0;
  };
  static Key key_of(std::string_view text);

  /// The request that was kept under `key`; null: there is none, or another thread is at its place.
  PendingPtr take(const Key& key);
  /// Keeps a completed request under its own key until it is taken, or another one needs its place.
  /// Frees its rows. One without a key ends here, and so does one that has failed.
  void keep(PendingPtr pending);
  /// The same for one that others may have found by its handle: not while one of them holds it.
  void keep_released(PendingPtr pending);

 private:
  /// A power of two. Requests beyond that come at the price of new ones.
  static constexpr std::size_t kPlaces = 256;
  struct Place {
    std::atomic<bool> is_taken{false};  ///< By the thread that looks at `kept`.
    PendingPtr kept;
  };
  /// Holds a place for its scope, where no other thread does.
  class Visit;

  std::unique_ptr<std::array<Place, kPlaces>> places_ =
      std::make_unique<std::array<Place, kPlaces>>();
};

}  // namespace hvd
