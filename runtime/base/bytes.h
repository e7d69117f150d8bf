// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/result.h"

namespace hvd {

using Bytes = std::vector<std::byte>;

/// Appends little-endian fixed-width values and length-prefixed strings to a wire message.
class ByteWriter {
 public:
  template <typename T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) void put(T value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof value);
  }
  void put_string(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    put_raw(std::as_bytes(std::span(text)));
  }
  template <typename T>
  void put_vector(const std::vector<T>& values) {
    put(static_cast<std::uint32_t>(values.size()));
    for (const T& value : values) put(value);
  }
  void put_raw(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }

  const Bytes& bytes() const { return bytes_; }
  Bytes take() { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

/// Reads what ByteWriter wrote; anything short or over-long is an error, never a crash.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <typename T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) Result<T> get() {
    HVD_TRY_ASSIGN(auto raw, get_raw(sizeof(T)));
    T value;
    std::memcpy(&value, raw.data(), sizeof value);
    return value;
  }
  Result<std::string> get_string() {
    HVD_TRY_ASSIGN(auto size, get<std::uint32_t>());
    HVD_TRY_ASSIGN(auto raw, get_raw(size));
    return std::string(reinterpret_cast<const char*>(raw.data()), raw.size());
  }
  template <typename T>
  Result<std::vector<T>> get_vector() {
    HVD_TRY_ASSIGN(auto count, get<std::uint32_t>());
    if (count > rest_.size() / sizeof(T)) return truncated(count * sizeof(T));
    std::vector<T> values;
    values.reserve(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      HVD_TRY_ASSIGN(auto value, get<T>());
      values.push_back(value);
    }
    return values;
  }
  Result<std::span<const std::byte>> get_raw(std::size_t size) {
    if (size > rest_.size()) return truncated(size);
    const auto raw = rest_.first(size);
    rest_ = rest_.subspan(size);
    return raw;
  }

  std::size_t remaining() const { return rest_.size(); }

 private:
  Status truncated(std::size_t wanted) const {
    return error(Code::kInternal, "wire message is truncated: {} bytes wanted, {} left", wanted,
                 rest_.size());
  }
  std::span<const std::byte> rest_;
};

}  // namespace hvd
