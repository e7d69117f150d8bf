// SPDX-License-Identifier: Apache-2.0
/// The distributed optimizer for training loops written by hand.
#pragma once

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "hvd/collectives.hpp"

namespace hvd {

/// A trainable buffer and the buffer its gradient is written to: equal lengths, the caller's
/// memory, alive as long as the optimizer.
struct Parameter {
  std::string name;  ///< Unique; equal on all ranks.
  std::span<float> values;
  std::span<float> gradients;
};

/// Copies the values of rank `root` to every rank; call once before training.
inline void broadcast(std::span<const Parameter> parameters, int root) {
  std::vector<Pending> pending;
  pending.reserve(parameters.size());
  for (const Parameter& parameter : parameters) {
    pending.push_back(broadcast_async("broadcast." + parameter.name, parameter.values, root));
  }
  for (Pending& one : pending) one.wait();
}

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

/// Averages gradients over the ranks while the backward pass goes on, then updates the values.
///
/// Each step: write gradients (sum over `passes_per_step` passes), call gradient_ready(i) for each
/// as soon as it is complete, at last step(). Gradients nobody called ready are sent by step().
/// One thread at a time.
class DistributedOptimizer {
 public:
  using Rule = std::variant<Sgd, Adam>;

  DistributedOptimizer(std::vector<Parameter> parameters, Rule rule, int passes_per_step = 1)
      : parameters_(std::move(parameters)),
        rule_(rule),
        gradients_(nullptr, hvd_gradients_destroy) {
    std::vector<const char*> names;
    std::vector<std::int64_t> counts;
    for (const Parameter& parameter : parameters_) {
      if (parameter.values.size() != parameter.gradients.size()) {
        throw Error(HVD_INVALID_ARGUMENT,
                    "parameter '" + parameter.name + "' has " +
                        std::to_string(parameter.values.size()) + " values and " +
                        std::to_string(parameter.gradients.size()) + " gradients");
      }
      names.push_back(parameter.name.c_str());
      counts.push_back(static_cast<std::int64_t>(parameter.values.size()));
    }
    std::vector<hvd_tensor> tensors;
    tensors.reserve(counts.size());
    for (const std::int64_t& count : counts) {
      tensors.push_back({nullptr, nullptr, HVD_FLOAT32, 1, &count, 0, nullptr, 0});
    }
    hvd_gradients_options options = HVD_GRADIENTS_OPTIONS_INITIALIZER;
    options.passes_per_step = passes_per_step;
    hvd_gradients* created = nullptr;
    check(hvd_gradients_create(&options, names.data(), tensors.data(),
                               static_cast<std::uint32_t>(parameters_.size()), &created));
    gradients_.reset(created);
    for (const Parameter& parameter : parameters_) {
      first_.emplace_back(slots() > 0 ? parameter.values.size() : 0);
      second_.emplace_back(slots() > 1 ? parameter.values.size() : 0);
    }
  }

  /// One backward pass has written gradient `index`; its reduction may start.
  void gradient_ready(std::size_t index) { ready(index, 0); }

  /// Sends what was not called ready and waits until all gradients are averages of all ranks.
  void synchronize() {
    if (is_synchronized_) return;
    std::uint32_t count = 0;
    check(hvd_gradients_missing(gradients_.get(), nullptr, 0, &count));
    std::vector<std::uint32_t> missing(count);
    check(hvd_gradients_missing(gradients_.get(), missing.data(), count, &count));
    for (const std::uint32_t index : missing) ready(index, 1);
    const auto begin = std::chrono::steady_clock::now();
    const hvd_status status = hvd_gradients_wait(gradients_.get(), -1);
    waited_ += std::chrono::steady_clock::now() - begin;
    check(status);
    is_synchronized_ = true;
  }

  /// Synchronizes unless done already, updates all values and sets all gradients to zero.
  void step() {
    synchronize();
    ++steps_;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      std::visit([&](const auto& rule) { update(rule, i); }, rule_);
    }
    for (const Parameter& parameter : parameters_) {
      for (float& gradient : parameter.gradients) gradient = 0;
    }
    is_synchronized_ = false;
  }

  void set_learning_rate(double rate) {
    std::visit([rate](auto& rule) { rule.learning_rate = rate; }, rule_);
  }

  /// Time that synchronize() has waited for other ranks and for bytes, since construction.
  std::chrono::duration<double> waited() const { return waited_; }
  std::span<const Parameter> parameters() const { return parameters_; }

 private:
  int slots() const {
    if (const auto* sgd = std::get_if<Sgd>(&rule_)) return sgd->momentum == 0 ? 0 : 1;
    return 2;
  }

  void ready(std::size_t index, int last_pass) {
    if (index >= parameters_.size()) {
      throw Error(HVD_INVALID_ARGUMENT, "gradient " + std::to_string(index) + " of " +
                                            std::to_string(parameters_.size()));
    }
    check(hvd_gradient_ready(gradients_.get(), static_cast<std::uint32_t>(index),
                             parameters_[index].gradients.data(), last_pass));
  }

  void update(const Sgd& rule, std::size_t index) {
    const Parameter& parameter = parameters_[index];
    const auto rate = static_cast<float>(rule.learning_rate);
    const auto momentum = static_cast<float>(rule.momentum);
    const auto decay = static_cast<float>(rule.weight_decay);
    for (std::size_t k = 0; k < parameter.values.size(); ++k) {
      float change = parameter.gradients[k] + decay * parameter.values[k];
      if (!first_[index].empty()) {
        change += momentum * first_[index][k];
        first_[index][k] = change;
      }
      parameter.values[k] -= rate * change;
    }
  }

  void update(const Adam& rule, std::size_t index) {
    const Parameter& parameter = parameters_[index];
    const auto beta1 = static_cast<float>(rule.beta1);
    const auto beta2 = static_cast<float>(rule.beta2);
    const double steps = static_cast<double>(steps_);
    const auto rate = static_cast<float>(rule.learning_rate / (1 - std::pow(rule.beta1, steps)));
    const auto scale = static_cast<float>(1 / std::sqrt(1 - std::pow(rule.beta2, steps)));
    const auto epsilon = static_cast<float>(rule.epsilon);
    for (std::size_t k = 0; k < parameter.values.size(); ++k) {
      const float gradient = parameter.gradients[k];
      float& mean = first_[index][k];
      float& square = second_[index][k];
      mean = beta1 * mean + (1 - beta1) * gradient;
      square = beta2 * square + (1 - beta2) * gradient * gradient;
      parameter.values[k] -= rate * mean / (std::sqrt(square) * scale + epsilon);
    }
  }

  std::vector<Parameter> parameters_;
  Rule rule_;
  std::unique_ptr<hvd_gradients, void (*)(hvd_gradients*)> gradients_;
  std::vector<std::vector<float>> first_;   ///< Momentum, or Adam's mean.
  std::vector<std::vector<float>> second_;  ///< Adam's mean square.
  std::int64_t steps_ = 0;
  bool is_synchronized_ = false;
  std::chrono::duration<double> waited_{0};
};

}  // namespace hvd
