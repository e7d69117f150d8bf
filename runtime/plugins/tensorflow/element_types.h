// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "hvd/hvd.h"

namespace hvd::tensorflow {

/// TF_INT32 and TF_INT64 of tensorflow/c/tf_datatype.h.
inline constexpr int kTfInt32 = 3;
inline constexpr int kTfInt64 = 9;

/// The hvd_dtype of a TF_DataType; -1, which hvd_submit() refuses, where there is none.
int hvd_type_of(int tf_type);

/// Bytes of an element of a TF_DataType; 0 for types that have no hvd_dtype.
std::size_t element_bytes(int tf_type);

}  // namespace hvd::tensorflow
