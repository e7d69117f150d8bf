// SPDX-License-Identifier: Apache-2.0
/// Update rules of optimizers, for gradients that are already reduced.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "hvd/gradients.h"

namespace hvd {

/// Stochastic gradient descent: v = momentum * v + g + weight_decay * w; w -= rate * v.
struct Sgd {
  double learning_rate = 0.01;
  double momentum = 0;
  double weight_decay = 0;
};

/// Adam (Kingma and Ba 2015, https://arxiv.org/abs/1412.6980).
struct Adam {
  double learning_rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
};

/// LARS (You et al. 2017, https://arxiv.org/abs/1708.03888): SGD with momentum, where each layer's
/// rate is multiplied by coefficient * |w| / (|g| + weight_decay * |w|). Vectors (biases) take the
/// plain rate.
struct Lars {
  double learning_rate = 1;
  double momentum = 0.9;
  double weight_decay = 1e-4;
  double coefficient = 0.001;
};

/// LAMB (You et al. 2020, https://arxiv.org/abs/1904.00962): Adam's update plus weight_decay * w,
/// where each layer's rate is multiplied by |w| / |update|. Vectors (biases) take the plain rate.
struct Lamb {
  double learning_rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  double weight_decay = 0.01;
};

using Rule = std::variant<Sgd, Adam, Lars, Lamb>;

/// What a rule keeps for each parameter.
struct RuleState {
  std::vector<float> first;   ///< Momentum, or Adam's mean.
  std::vector<float> second;  ///< Adam's mean square.
};

/// One parameter's part in a step.
struct Update {
  std::span<float> values;
  std::span<float> gradients;  ///< Used as work space.
  RuleState& state;
  std::int64_t step = 1;   ///< From 1.
  bool is_vector = false;  ///< Of one dimension, such as a bias.
};

inline double norm(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

inline RuleState initial_state(const Rule& rule, std::size_t count) {
  const auto* const sgd = std::get_if<Sgd>(&rule);
  const bool has_first = sgd == nullptr || sgd->momentum != 0;
  const bool has_second = std::holds_alternative<Adam>(rule) || std::holds_alternative<Lamb>(rule);
  return {std::vector<float>(has_first ? count : 0), std::vector<float>(has_second ? count : 0)};
}

inline void apply(const Sgd& rule, const Update& update) {
  const auto rate = static_cast<float>(rule.learning_rate);
  const auto momentum = static_cast<float>(rule.momentum);
  const auto decay = static_cast<float>(rule.weight_decay);
  for (std::size_t k = 0; k < update.values.size(); ++k) {
    float change = update.gradients[k] + decay * update.values[k];
    if (!update.state.first.empty()) {
      change += momentum * update.state.first[k];
      update.state.first[k] = change;
    }
    update.values[k] -= rate * change;
  }
}

inline void apply(const Adam& rule, const Update& update) {
  const auto beta1 = static_cast<float>(rule.beta1);
  const auto beta2 = static_cast<float>(rule.beta2);
  const auto step = static_cast<double>(update.step);
  const auto rate = static_cast<float>(rule.learning_rate / (1 - std::pow(rule.beta1, step)));
  const auto scale = static_cast<float>(1 / std::sqrt(1 - std::pow(rule.beta2, step)));
  const auto epsilon = static_cast<float>(rule.epsilon);
  for (std::size_t k = 0; k < update.values.size(); ++k) {
    const float gradient = update.gradients[k];
    float& mean = update.state.first[k];
    float& square = update.state.second[k];
    mean = beta1 * mean + (1 - beta1) * gradient;
    square = beta2 * square + (1 - beta2) * gradient * gradient;
    update.values[k] -= rate * mean / (std::sqrt(square) * scale + epsilon);
  }
}

inline void apply(const Lars& rule, const Update& update) {
  const double ratio = update.is_vector
                           ? 1
                           : hvd_lars_ratio(norm(update.values), norm(update.gradients),
                                            rule.coefficient, rule.weight_decay);
  const auto rate = static_cast<float>(rule.learning_rate * ratio);
  const auto momentum = static_cast<float>(rule.momentum);
  const auto decay = static_cast<float>(rule.weight_decay);
  for (std::size_t k = 0; k < update.values.size(); ++k) {
    float& velocity = update.state.first[k];
    velocity = momentum * velocity + rate * (update.gradients[k] + decay * update.values[k]);
    update.values[k] -= velocity;
  }
}

inline void apply(const Lamb& rule, const Update& update) {
  const auto beta1 = static_cast<float>(rule.beta1);
  const auto beta2 = static_cast<float>(rule.beta2);
  const auto step = static_cast<double>(update.step);
  const auto first = static_cast<float>(1 / (1 - std::pow(rule.beta1, step)));
  const auto second = static_cast<float>(1 / (1 - std::pow(rule.beta2, step)));
  const auto epsilon = static_cast<float>(rule.epsilon);
  const auto decay = static_cast<float>(rule.weight_decay);
  for (std::size_t k = 0; k < update.values.size(); ++k) {
    const float gradient = update.gradients[k];
    float& mean = update.state.first[k];
    float& square = update.state.second[k];
    mean = beta1 * mean + (1 - beta1) * gradient;
    square = beta2 * square + (1 - beta2) * gradient * gradient;
    update.gradients[k] =
        first * mean / (std::sqrt(second * square) + epsilon) + decay * update.values[k];
  }
  const double ratio =
      update.is_vector ? 1 : hvd_lamb_ratio(norm(update.values), norm(update.gradients));
  const auto rate = static_cast<float>(rule.learning_rate * ratio);
  for (std::size_t k = 0; k < update.values.size(); ++k) {
    update.values[k] -= rate * update.gradients[k];
  }
}

}  // namespace hvd
