// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "hvd/hvd.h"

namespace hvd_test {

/// Bytes of an element.
std::size_t size_of(hvd_dtype dtype);
/// Components of an element: 2 of a complex one.
std::size_t components_of(hvd_dtype dtype);
/// Component `i` of the tensor at `data`.
double read_component(hvd_dtype dtype, const std::byte* data, std::size_t i);
/// Rounds to the type; integers wrap.
void write_component(hvd_dtype dtype, std::byte* data, std::size_t i, double value);
/// Relative distance between neighbours of the type; 0: it has whole numbers only.
double spacing_of(hvd_dtype dtype);

bool is_complex(hvd_dtype dtype);
bool is_float8(hvd_dtype dtype);
bool is_real(hvd_dtype dtype);  ///< float16 to float64.
bool is_signed(hvd_dtype dtype);
const char* name_of(hvd_dtype dtype);

}  // namespace hvd_test
