// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace hvd {

using Mac = std::array<std::byte, 32>;
using Nonce = std::array<std::byte, 32>;

/// The 256-bit secret of one job: whoever can prove it belongs to the job.
/// Never printed. Immutable after construction.
class JobKey {
 public:
  static JobKey random();
  /// 64 hex digits; the error never repeats the text.
  static Result<JobKey> from_hex(std::string_view text);
  std::string to_hex() const;

  /// Message authentication code (HMAC-SHA-256) of the parts, one after the other.
  Mac authenticate(std::string_view label, std::span<const std::byte> first,
                   std::span<const std::byte> second) const;

 private:
  std::array<std::byte, 32> bytes_{};
};

Nonce random_nonce();
/// Random lower-case hex digits, for names that nobody can guess.
std::string random_hex(std::size_t bytes);
/// Compares in constant time.
bool equal_macs(const Mac& a, const Mac& b);

}  // namespace hvd
