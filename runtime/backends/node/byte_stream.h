// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace hvd {

/// A list of memory ranges seen as one stream of bytes. Borrows the ranges. Immutable once filled.
/// A range may be *nowhere* (null): what is copied there is dropped.
class ByteStream {
 public:
  struct Range {
    std::byte* data;
    std::size_t bytes;
  };

  /// Appends a range; empty ones are dropped.
  void append(std::byte* data, std::size_t bytes);
  /// Ranges that are only ever read: inputs.
  void append(const void* data, std::size_t bytes) {
    append(static_cast<std::byte*>(const_cast<void*>(data)), bytes);
  }
  void reserve(std::size_t ranges) { ranges_.reserve(ranges); }
  /// From now on copy_from() leaves the caches alone: for results that exceed them.
  void write_past_cache() { past_cache_ = true; }

  std::size_t size() const { return size_; }
  /// The bytes from `offset` to the end of their range; offset < size(). Null data: nowhere.
  Range at(std::size_t offset) const;

  void copy_to(std::byte* destination, std::size_t offset, std::size_t bytes) const;
  void copy_from(const std::byte* source, std::size_t offset, std::size_t bytes) const;

 private:
  struct Entry {
    std::size_t begin;
    std::byte* data;
    std::size_t bytes;
  };
  std::vector<Entry> ranges_;
  std::size_t size_ = 0;
  bool past_cache_ = false;
  mutable std::size_t last_ = 0;  // the range of the last look-up: streams are read forwards
};

/// Where together they exceed what a core keeps to itself: no use could find them there anyway.
void write_past_cache_if_large(std::span<ByteStream> outputs);

}  // namespace hvd
