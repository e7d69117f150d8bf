// SPDX-License-Identifier: Apache-2.0
#include "optim/learning_rate.h"

#include <cmath>

namespace hvd {

Result<double> learning_rate_at(const LearningRateScaling& scaling, std::int64_t step) {
  if (!std::isfinite(scaling.base) || scaling.base < 0 || !std::isfinite(scaling.factor) ||
      scaling.factor <= 0 || scaling.warmup_steps < 0 || step < 0) {
    return error(Code::kInvalidArgument,
                 "learning rate: base {} (>= 0), factor {} (> 0), warm-up steps {} (>= 0), step {} "
                 "(>= 0)",
                 scaling.base, scaling.factor, scaling.warmup_steps, step);
  }
  if (step >= scaling.warmup_steps) return scaling.base * scaling.factor;
  const double progress = static_cast<double>(step) / static_cast<double>(scaling.warmup_steps);
  return scaling.base * (1 + progress * (scaling.factor - 1));
}

}  // namespace hvd
