// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace hvd {

/// What the steps of a TCP network cost, for the choice of an algorithm: integers, so that all
/// ranks choose alike. For faster networks all three are smaller alike, which leaves the choice as
/// it is.
inline constexpr long long kStepNs = 25'000;    ///< From one node's send to the other's use.
inline constexpr long long kMessageNs = 5'000;  ///< Of a core, to send one and receive one.
inline constexpr long long kByteNs = 1;

}  // namespace hvd
