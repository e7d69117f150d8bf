// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "doubles/nccl/message.h"

namespace double_nccl {

/// to = to (fold) from, rounded to the type after every element, as in a ring.
void fold_into(Bytes& to, const Bytes& from, ncclDataType_t dtype, Fold fold);
/// Multiplies by a scalar of the type, given by its bits: what kScaledSum does before the sum.
void scale(Bytes& values, ncclDataType_t dtype, std::uint64_t scalar);
/// What kAverage does after the sum.
void divide(Bytes& values, ncclDataType_t dtype, int divisor);

}  // namespace double_nccl
