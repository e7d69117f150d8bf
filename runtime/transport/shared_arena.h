// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "base/mutex.h"
#include "base/result.h"
#include "transport/shared_segment.h"

namespace hvd {

/// Memory that this rank hands out to its user and that every local rank sees: collectives work on
/// tensors in it where they lie, without a copy into a slot.
///
/// Each local rank allocates from its own part of the segment; what lies at an offset of a part is
/// found at the same offset of that part by every rank. Keeps the segment mapped as long as it
/// lives. Thread-safe.
class SharedArena {
 public:
  SharedArena(std::shared_ptr<const SharedSegment> segment, int local_rank, int local_size);

  /// Zeroed where it was not used before; at multiples of 64 bytes, of a page from 4096 bytes on.
  /// kSystem: the arena is full, or the machine has no such memory.
  Result<void*> allocate(std::size_t bytes);
  /// True when `memory` was allocated here; it is free now.
  bool deallocate(void* memory);
  /// What is allocated now stays out of use when it is deallocated: others may still write there.
  void keep();
  /// Bytes that are allocated.
  std::size_t used_bytes() const;

  /// Where these bytes begin in my part; nothing where they do not lie in it entirely.
  std::optional<std::size_t> offset_of(const void* data, std::size_t bytes) const;
  /// What lies at `offset` of the part of `local_rank`.
  std::byte* at(int local_rank, std::size_t offset) const {
    return base_ + static_cast<std::size_t>(local_rank) * part_bytes_ + offset;
  }
  std::size_t part_bytes() const { return part_bytes_; }

 private:
  using Blocks = std::map<std::size_t, std::size_t>;  // begin -> bytes
  void give_back(std::size_t begin, std::size_t bytes) HVD_REQUIRES(mutex_);

  std::shared_ptr<const SharedSegment> segment_;
  std::byte* base_;
  std::size_t part_bytes_;
  std::byte* mine_;
  mutable Mutex mutex_;
  Blocks free_ HVD_GUARDED_BY(mutex_);
  Blocks used_ HVD_GUARDED_BY(mutex_);
  std::size_t used_bytes_ HVD_GUARDED_BY(mutex_) = 0;
  bool keeps_ HVD_GUARDED_BY(mutex_) = false;
};

}  // namespace hvd
