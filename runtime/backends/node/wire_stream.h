// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "backends/node/byte_stream.h"
#include "collective/wire_cast.h"

namespace hvd {

/// The tensors of a batch as one stream of the elements that travel: their own bytes, or a cast on
/// the way in and out. Offsets and lengths are in bytes of what travels.
/// Engine thread only.
class WireStream {
 public:
  explicit WireStream(const WireCast& cast)
      : cast_(cast), element_bytes_(size_of(cast.element)), wire_bytes_(size_of(cast.wire)) {}

  void reserve(std::size_t ranges) { elements_.reserve(ranges); }
  void append(std::byte* data, std::size_t count) {
    elements_.append(data, count * element_bytes_);
  }
  void append(const void* data, std::size_t count) {
    elements_.append(data, count * element_bytes_);
  }
  std::size_t size() const { return elements_.size() / element_bytes_ * wire_bytes_; }
  bool is_cast() const { return cast_.is_cast(); }

  /// What travels from `offset` on, up to the end of its range: the tensor itself, or at most
  /// kScratchBytes of it, cast, until the next call.
  ByteStream::Range read(std::size_t offset);
  /// The tensor itself; only where nothing is cast.
  ByteStream::Range at(std::size_t offset) const { return elements_.at(offset); }
  void copy_to(std::byte* destination, std::size_t offset, std::size_t bytes) const;
  void copy_from(const std::byte* source, std::size_t offset, std::size_t bytes) const;

  static constexpr std::size_t kScratchBytes = std::size_t{8} << 10;

 private:
  ByteStream::Range elements_at(std::size_t offset) const {
    return elements_.at(offset / wire_bytes_ * element_bytes_);
  }

  WireCast cast_;
  std::size_t element_bytes_;
  std::size_t wire_bytes_;
  ByteStream elements_;
  std::unique_ptr<std::byte[]> scratch_;
};

}  // namespace hvd
