// SPDX-License-Identifier: Apache-2.0
#include "backends/node/wire_stream.h"

#include <algorithm>

namespace hvd {

ByteStream::Range WireStream::read(std::size_t offset) {
  if (!is_cast()) return elements_.at(offset);
  if (scratch_ == nullptr) scratch_ = std::make_unique_for_overwrite<std::byte[]>(kScratchBytes);
  const ByteStream::Range range = elements_at(offset);
  const std::size_t count = std::min(range.bytes / element_bytes_, kScratchBytes / wire_bytes_);
  cast_.narrow(scratch_.get(), range.data, count);
  return {scratch_.get(), count * wire_bytes_};
}

void WireStream::copy_to(std::byte* destination, std::size_t offset, std::size_t bytes) const {
  if (!is_cast()) return elements_.copy_to(destination, offset, bytes);
  while (bytes > 0) {
    const ByteStream::Range range = elements_at(offset);
    const std::size_t count = std::min(bytes / wire_bytes_, range.bytes / element_bytes_);
    cast_.narrow(destination, range.data, count);
    destination += count * wire_bytes_;
    offset += count * wire_bytes_;
    bytes -= count * wire_bytes_;
  }
}

void WireStream::copy_from(const std::byte* source, std::size_t offset, std::size_t bytes) const {
  if (!is_cast()) return elements_.copy_from(source, offset, bytes);
  while (bytes > 0) {
    const ByteStream::Range range = elements_at(offset);
    const std::size_t count = std::min(bytes / wire_bytes_, range.bytes / element_bytes_);
    if (range.data != nullptr) cast_.widen(range.data, source, count);
    source += count * wire_bytes_;
    offset += count * wire_bytes_;
    bytes -= count * wire_bytes_;
  }
}

}  // namespace hvd
