// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/result.h"
#include "base/unique_fd.h"
#include "transport/doorbell.h"

namespace hvd {

/// The shared memory of one node: one SleepWord per local rank, then the memory of its users.
///
/// It has no name: it is reached through its descriptor alone, so nothing can be left behind.
/// The mapping lives as long as the object. Immutable after construction, but for the memory.
class SharedSegment {
 public:
  /// Zeroed memory of this process alone, for ranks that are its threads.
  static Result<std::shared_ptr<SharedSegment>> create_private(int local_size,
                                                               std::size_t memory_bytes);
  /// Zeroed memory behind a memfd, whose pages are reserved now rather than by SIGBUS later.
  static Result<std::shared_ptr<SharedSegment>> create(int local_size, std::size_t memory_bytes);
  /// Maps the segment that a peer created with the same arguments.
  static Result<std::shared_ptr<SharedSegment>> open(UniqueFd fd, int local_size,
                                                     std::size_t memory_bytes);

  SharedSegment(void* address, std::size_t mapped_bytes, UniqueFd fd, int local_size,
                std::size_t memory_bytes);
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;
  ~SharedSegment();

  std::span<SleepWord> words() const { return words_; }
  std::span<std::byte> memory() const { return memory_; }
  int fd() const { return fd_.get(); }
  /// Once every rank has mapped it the descriptor is of no more use.
  void close_fd() { fd_.reset(); }

 private:
  void* address_;
  std::size_t mapped_bytes_;
  UniqueFd fd_;
  std::span<SleepWord> words_;
  std::span<std::byte> memory_;
};

}  // namespace hvd
