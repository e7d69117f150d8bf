// SPDX-License-Identifier: Apache-2.0
#include "backends/node/byte_stream.h"

#include <algorithm>

#include "base/check.h"
#include "base/copy_bytes.h"

namespace hvd {

void ByteStream::append(std::byte* data, std::size_t bytes) {
  if (bytes == 0) return;
  ranges_.push_back({size_, data, bytes});
  size_ += bytes;
}

ByteStream::Range ByteStream::at(std::size_t offset) const {
  HVD_CHECK(offset < size_);
  const Entry& last = ranges_[last_];
  if (offset < last.begin || offset - last.begin >= last.bytes) {
    const auto after =
        std::upper_bound(ranges_.begin(), ranges_.end(), offset,
                         [](std::size_t value, const Entry& entry) { return value < entry.begin; });
    last_ = static_cast<std::size_t>(after - ranges_.begin()) - 1;
  }
  const Entry& entry = ranges_[last_];
  const std::size_t skipped = offset - entry.begin;
  return {entry.data == nullptr ? nullptr : entry.data + skipped, entry.bytes - skipped};
}

void ByteStream::copy_to(std::byte* destination, std::size_t offset, std::size_t bytes) const {
  while (bytes > 0) {
    const Range range = at(offset);
    const std::size_t n = std::min(bytes, range.bytes);
    HVD_CHECK(range.data != nullptr);
    copy_bytes(destination, range.data, n);
    destination += n;
    offset += n;
    bytes -= n;
  }
}

void ByteStream::copy_from(const std::byte* source, std::size_t offset, std::size_t bytes) const {
  while (bytes > 0) {
    const Range range = at(offset);
    const std::size_t n = std::min(bytes, range.bytes);
    if (range.data != nullptr) {
      if (past_cache_) {
        copy_past_cache(range.data, source, n);
      } else {
        copy_bytes(range.data, source, n);
      }
    }
    source += n;
    offset += n;
    bytes -= n;
  }
}

void write_past_cache_if_large(std::span<ByteStream> outputs) {
  constexpr std::size_t kLargeBytes = std::size_t{4} << 20;
  std::size_t bytes = 0;
  for (const ByteStream& output : outputs) bytes += output.size();
  if (bytes < kLargeBytes) return;
  for (ByteStream& output : outputs) output.write_past_cache();
}

}  // namespace hvd
