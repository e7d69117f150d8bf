// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/result.h"
#include "base/unique_fd.h"
#include "transport/doorbell.h"

namespace hvd {

/// What a segment holds; equal on all ranks of the node.
struct SegmentLayout {
  int local_size = 1;
  std::size_t memory_bytes = 0;  ///< Of its users; reserved at once.
  std::size_t arena_bytes = 0;   ///< Address space of each local rank; see SharedArena.
};

/// The shared memory of one node: one SleepWord per local rank, the memory of its users, and an
/// arena per local rank, of which only the address space is taken.
///
/// It has no name: it is reached through its descriptor alone, so nothing can be left behind.
/// The mapping lives as long as the object. Immutable after construction, except for the memory.
class SharedSegment {
 public:
  /// Zeroed memory of this process alone, for ranks that are its threads.
  static Result<std::shared_ptr<SharedSegment>> create_private(const SegmentLayout& layout);
  /// Zeroed memory behind a memfd, whose pages are reserved now rather than by SIGBUS later.
  static Result<std::shared_ptr<SharedSegment>> create(const SegmentLayout& layout);
  /// Maps the segment that a peer created with the same layout.
  static Result<std::shared_ptr<SharedSegment>> open(UniqueFd fd, const SegmentLayout& layout);

  SharedSegment(void* address, std::size_t mapped_bytes, UniqueFd fd, const SegmentLayout& layout);
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;
  ~SharedSegment();

  std::span<SleepWord> words() const { return words_; }
  std::span<std::byte> memory() const { return memory_; }
  /// The arenas of all local ranks, one after the other.
  std::span<std::byte> arenas() const { return arenas_; }
  int fd() const { return fd_.get(); }
  /// Once every rank has mapped it the descriptor serves the arenas only.
  void close_fd() {
    if (arenas_.empty()) fd_.reset();
  }
  /// Takes real memory for a part of the arenas, zeroed where it had none; whole pages.
  Status reserve(std::span<std::byte> part) const;
  /// Gives the whole pages of a part of the arenas back to the system.
  void release(std::span<std::byte> part) const;

 private:
  void* address_;
  std::size_t mapped_bytes_;
  UniqueFd fd_;
  std::span<SleepWord> words_;
  std::span<std::byte> memory_;
  std::span<std::byte> arenas_;
};

}  // namespace hvd
