// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "collective/data_type.h"

namespace hvd {

/// The sum of the squares of `count` elements in float64, always added in the same order, so that
/// equal gradients give equal bits on all ranks. 0 for types that are not floating.
double squared_norm(DataType dtype, const void* data, std::size_t count);

/// True when no element is infinite or NaN.
bool all_finite(DataType dtype, const void* data, std::size_t count);

/// data[i] *= factor, rounded once. Does nothing to types that are not floating.
void scale_in_place(DataType dtype, void* data, std::size_t count, double factor);

/// What to multiply gradients of global norm `norm` by, so that it becomes at most `limit`
/// (Pascanu et al. 2013, https://arxiv.org/abs/1211.5063): min(1, limit / (norm + 1e-6)), NaN
/// where the norm is, as torch.nn.utils.clip_grad_norm_ has it.
double clip_factor(double norm, double limit);

}  // namespace hvd
