// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "collective/data_type.h"
#include "collective/operation.h"

namespace hvd {

/// Fills `count` elements with the value that changes no result of `op`: 0 for sums, averages, or
/// and xor; 1 for products; the highest value for min and the lowest for max (infinities where the
/// type has them); all ones for and. Zeros where there is no such value (Adasum).
void fill_identity(ReduceOp op, DataType dtype, void* elements, std::size_t count);

}  // namespace hvd
