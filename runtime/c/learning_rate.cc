// SPDX-License-Identifier: Apache-2.0
#include "optim/learning_rate.h"

#include <limits>

#include "c/guard.h"
#include "hvd/gradients.h"

namespace {

using hvd::guarded;
using hvd::RateRule;
using hvd::Status;

static_assert(HVD_RATE_CONSTANT == static_cast<int>(RateRule::kConstant));
static_assert(HVD_RATE_LINEAR == static_cast<int>(RateRule::kLinear));
static_assert(HVD_RATE_SQUARE_ROOT == static_cast<int>(RateRule::kSquareRoot));

}  // namespace

double hvd_rate_factor(int rule, double growth) noexcept {
  double factor = std::numeric_limits<double>::quiet_NaN();
  static_cast<void>(guarded([&]() -> Status {
    if (rule < HVD_RATE_CONSTANT || rule > HVD_RATE_SQUARE_ROOT) {
      return hvd::error(hvd::Code::kInvalidArgument, "{} is not an hvd_rate_rule", rule);
    }
    HVD_TRY_ASSIGN(factor, hvd::rate_factor(static_cast<RateRule>(rule), growth));
    return Status::ok();
  }));
  return factor;
}

double hvd_learning_rate(double base, double factor, int64_t warmup_steps, int64_t step) noexcept {
  double rate = std::numeric_limits<double>::quiet_NaN();
  static_cast<void>(guarded([&]() -> Status {
    HVD_TRY_ASSIGN(rate, hvd::learning_rate_at(
                             {.base = base, .factor = factor, .warmup_steps = warmup_steps}, step));
    return Status::ok();
  }));
  return rate;
}

double hvd_lars_ratio(double weight_norm, double gradient_norm, double coefficient,
                      double weight_decay) noexcept {
  return hvd::lars_ratio(weight_norm, gradient_norm, coefficient, weight_decay);
}

double hvd_lamb_ratio(double weight_norm, double update_norm) noexcept {
  return hvd::lamb_ratio(weight_norm, update_norm);
}
