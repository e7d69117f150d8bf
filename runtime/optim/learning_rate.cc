// SPDX-License-Identifier: Apache-2.0
#include "optim/learning_rate.h"

#include <cmath>

namespace hvd {

Result<double> rate_factor(RateRule rule, double growth) {
  if (!std::isfinite(growth) || growth <= 0) {
    return error(Code::kInvalidArgument,
                 "learning rate: the batch grows {} times; give a number above 0, such as the "
                 "number of ranks",
                 growth);
  }
  switch (rule) {
    case RateRule::kConstant:
      return 1.0;
    case RateRule::kLinear:
      return growth;
    case RateRule::kSquareRoot:
      return std::sqrt(growth);
  }
  return error(Code::kInvalidArgument,
               "learning rate: rule {} is not one of 0 (constant), 1 (linear), 2 (square root)",
               static_cast<int>(rule));
}

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

double lars_ratio(double weight_norm, double gradient_norm, double coefficient,
                  double weight_decay) {
  if (!(weight_norm > 0) || !(gradient_norm > 0)) return 1;
  return coefficient * weight_norm / (gradient_norm + weight_decay * weight_norm);
}

double lamb_ratio(double weight_norm, double update_norm) {
  if (!(weight_norm > 0) || !(update_norm > 0)) return 1;
  return weight_norm / update_norm;
}

}  // namespace hvd
