// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/result.h"

namespace hvd {

/// How the learning rate grows with the number of ranks.
///
/// N ranks make the batch N times larger; the usual remedy is a rate N times larger, reached
/// linearly over the first steps because large rates diverge at the start (Goyal et al. 2017,
/// https://arxiv.org/abs/1706.02677).
struct LearningRateScaling {
  double base = 0.1;              ///< The rate that suits one rank.
  double factor = 1;              ///< What to reach: usually the number of ranks.
  std::int64_t warmup_steps = 0;  ///< Steps from `base` to `base * factor`.
};

/// The rate of `step` (0 is the first). kInvalidArgument: a negative or not finite field.
Result<double> learning_rate_at(const LearningRateScaling& scaling, std::int64_t step);

}  // namespace hvd
