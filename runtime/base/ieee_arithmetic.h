// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace hvd {

/// While it lives, this thread rounds to nearest even and keeps subnormal numbers, as IEEE 754 has
/// it. Frameworks let their threads take subnormals for zero: what such a thread reduces for us
/// would have other bits than what the engine's reduces. A few nanoseconds where nothing has to
/// change.
class IeeeArithmetic {
 public:
  IeeeArithmetic();
  ~IeeeArithmetic();
  IeeeArithmetic(const IeeeArithmetic&) = delete;
  IeeeArithmetic& operator=(const IeeeArithmetic&) = delete;

 private:
  std::uint64_t before_;
  bool is_changed_;
};

}  // namespace hvd
