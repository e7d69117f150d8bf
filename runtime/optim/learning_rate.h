// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/result.h"

namespace hvd {

/// How the learning rate follows a batch that is `growth` times larger.
/// The numbers are those of `hvd_rate_rule` in hvd.h.
enum class RateRule : std::uint8_t {
  kConstant = 0,
  /// growth: the step is as long as `growth` small steps (Krizhevsky 2014,
  /// https://arxiv.org/abs/1404.5997; Goyal et al. 2017, https://arxiv.org/abs/1706.02677).
  kLinear = 1,
  /// sqrt(growth): keeps the variance of the step; usual for Adam and LAMB (Krizhevsky 2014;
  /// You et al. 2020, https://arxiv.org/abs/1904.00962).
  kSquareRoot = 2,
};

/// What to multiply the rate by. `growth`: usually ranks times passes per step; for Adasum the
/// rate stays (kConstant). kInvalidArgument: not a rule, or a growth that is not above 0.
Result<double> rate_factor(RateRule rule, double growth);

/// How the learning rate grows with the number of ranks.
///
/// N ranks make the batch N times larger; the usual remedy is a larger rate, see RateRule, reached
/// linearly over the first steps because large rates diverge at the start (gradual warm-up,
/// Goyal et al. 2017, section 2.2, https://arxiv.org/abs/1706.02677).
struct LearningRateScaling {
  double base = 0.1;              ///< The rate that suits one rank.
  double factor = 1;              ///< What to reach: see rate_factor().
  std::int64_t warmup_steps = 0;  ///< Steps from `base` to `base * factor`.
};

/// The rate of `step` (0 is the first). kInvalidArgument: a negative or not finite field.
Result<double> learning_rate_at(const LearningRateScaling& scaling, std::int64_t step);

/// LARS (You et al. 2017, https://arxiv.org/abs/1708.03888, section 4): the rate of one layer is
/// the global rate times
///
///     coefficient * |w| / (|g| + weight_decay * |w|)
///
/// and multiplies g + weight_decay * w. 1 when a norm is zero (a fresh bias, a frozen layer).
double lars_ratio(double weight_norm, double gradient_norm, double coefficient,
                  double weight_decay);

/// LAMB (You et al. 2020, https://arxiv.org/abs/1904.00962, algorithm 2, phi(z) = z): the rate of
/// one layer is the global rate times
///
///     |w| / |u|,  u = m / (sqrt(v) + epsilon) + weight_decay * w
///
/// with Adam's bias-corrected m and v, and multiplies u. 1 when a norm is zero.
double lamb_ratio(double weight_norm, double update_norm);

}  // namespace hvd
