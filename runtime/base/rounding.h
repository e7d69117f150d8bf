// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

namespace hvd {

/// The least whole number that is not below value / by. `value` >= 0, `by` > 0.
template <typename Number>
constexpr Number divide_up(Number value, std::type_identity_t<Number> by) {
  return value / by + (value % by == 0 ? 0 : 1);
}

/// The least multiple of `unit` that is not below `value`. `value` >= 0, `unit` > 0.
template <typename Number>
constexpr Number round_up(Number value, std::type_identity_t<Number> unit) {
  return divide_up(value, unit) * unit;
}

}  // namespace hvd
