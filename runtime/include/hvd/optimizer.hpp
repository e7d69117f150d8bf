// SPDX-License-Identifier: Apache-2.0
/// The distributed optimizer for training loops written by hand.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "hvd/collectives.hpp"
#include "hvd/rules.hpp"

namespace hvd {

/// A trainable buffer and the buffer its gradient is written to: equal lengths, the caller's
/// memory. It must neither move (a vector that grows does) nor end before the optimizer.
struct Parameter {
  std::string name;  ///< Unique; equal on all ranks.
  std::span<float> values;
  std::span<float> gradients;
  /// Empty: flat, one dimension, which LARS and LAMB take for a bias. PowerSGD needs at least two.
  std::vector<std::int64_t> shape = {};
};

/// Copies the values of rank `root` to every rank of a process set; call once before training.
inline void broadcast(std::span<const Parameter> parameters, int root,
                      std::int32_t process_set = 0) {
  std::vector<Pending> pending;
  pending.reserve(parameters.size());
  for (const Parameter& parameter : parameters) {
    pending.push_back(
        broadcast_async("broadcast." + parameter.name, parameter.values, root, process_set));
  }
  for (Pending& one : pending) one.wait();
}

/// How gradients travel; 0 in a field: the default. docs/explanation/compression.md
struct Compression {
  hvd_compression_method method = HVD_COMPRESS_NONE;
  int rank = 0;                ///< PowerSGD.
  double ratio = 0;            ///< Top-k.
  std::uint64_t smallest = 0;  ///< Gradients of fewer elements travel whole.
  double momentum = 0;         ///< Top-k: momentum correction; the rule is then Sgd without one.
};

/// Settings of a DistributedOptimizer, equal on all ranks.
struct OptimizerOptions {
  int passes_per_step = 1;
  bool mean_over_passes = false;  ///< The mean over the passes of a step instead of their sum.
  double predivide = 1;           ///< f: scales by 1/f before the sum, by f/size after it.
  double clip_norm = 0;           ///< Largest global norm of the averaged gradients; 0: any.
  Compression compression{};      ///< Of all parameters; see also DistributedOptimizer::compress().
  /// Steps locally first and reduces what that changed, by this operation: HVD_ADASUM makes it the
  /// Adasum delta optimizer. Each rank then keeps its own momentum. Gradients stay this rank's own,
  /// so that neither clip_norm nor mean_over_passes can be had with it.
  std::optional<hvd_reduce_op> difference_op{};
  std::int32_t process_set = 0;  ///< The ranks that train together; each of them makes one.
};

/// Averages gradients over the ranks while the backward pass goes on, then updates the values.
///
/// Each step: write gradients (sum over `passes_per_step` passes), call gradient_ready(i) for each
/// as soon as it is complete, at last step(). Gradients nobody called ready are sent by step().
/// A gradient is borrowed from gradient_ready() until synchronize() or step() has returned. An
/// exception that ends the optimizer in the middle of a step ends this rank's part in the job;
/// otherwise the destructor waits for the other ranks, 10 s at most: hvd_gradients_destroy().
/// One thread at a time.
class DistributedOptimizer {
 public:
  DistributedOptimizer(std::vector<Parameter> parameters, Rule rule,
                       const OptimizerOptions& options = {})
      : parameters_(std::move(parameters)),
        rule_(rule),
        steps_locally_(options.difference_op.has_value()),
        gradients_(create(options)) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (options.compression.method != HVD_COMPRESS_NONE) compress(i, options.compression);
      states_.push_back(initial_state(rule_, parameters_[i].values.size()));
    }
  }

  /// Chooses how gradient `index` travels, from the next step on; alike on all ranks.
  /// A momentum of compression takes the place of the rule's: that is Sgd without one.
  void compress(std::size_t index, const Compression& compression) {
    const Sgd* const sgd = std::get_if<Sgd>(&rule_);
    if (compression.momentum != 0 && (sgd == nullptr || sgd->momentum != 0)) {
      throw Error(HVD_INVALID_ARGUMENT, "a compression with a momentum of " +
                                            std::to_string(compression.momentum) +
                                            ": the rule must be Sgd without momentum");
    }
    const hvd_compression chosen{sizeof(hvd_compression), compression.method,
                                 compression.rank,        compression.ratio,
                                 compression.smallest,    compression.momentum};
    check(hvd_gradient_compress(gradients_.get(), static_cast<std::uint32_t>(index), &chosen));
  }

  /// One backward pass has written gradient `index`; its reduction may start.
  void gradient_ready(std::size_t index) {
    if (!steps_locally_) ready(index, parameters_.at(index).gradients.data(), 0);
  }

  /// Sends what was not called ready and waits until all gradients are averages of all ranks. Does
  /// nothing where the step is local.
  void synchronize() {
    if (is_synchronized_ || steps_locally_) return;
    std::uint32_t count = 0;
    check(hvd_gradients_missing(gradients_.get(), nullptr, 0, &count));
    std::vector<std::uint32_t> missing(count);
    check(hvd_gradients_missing(gradients_.get(), missing.data(), count, &count));
    for (const std::uint32_t index : missing) {
      ready(index, parameters_[index].gradients.data(), 1);
    }
    wait();
    is_synchronized_ = true;
  }

  /// Synchronizes unless done already, updates all values and sets all gradients to zero.
  void step() {
    synchronize();
    ++steps_;
    for (std::size_t i = 0; i < parameters_.size(); ++i) update(i);
    if (steps_locally_) wait();
    clear();
  }

  /// Ends the step without an update: synchronizes unless done already, and sets all gradients to
  /// zero.
  void skip_step() {
    synchronize();
    clear();
  }

  /// Gradients that are written from now on are the true ones times `scale`, the scale of a loss in
  /// mixed precision; between steps, alike on all ranks. step() takes gradients as they are: after
  /// synchronize() divide them by the scale, or call skip_step() where they are not finite.
  void set_loss_scale(double scale) {
    check(hvd_gradients_set_loss_scale(gradients_.get(), scale));
  }

  void set_learning_rate(double rate) {
    std::visit([rate](auto& rule) { rule.learning_rate = rate; }, rule_);
  }

  /// The global norm of the last step's averages before clipping; 0 without a clip norm.
  double last_norm() const {
    double norm = 0;
    check(hvd_gradients_norm(gradients_.get(), &norm));
    return norm;
  }

  /// What training needs beside the values to go on as if it had not stopped: steps, momentum, and
  /// what compression keeps. It is this rank's own: save it on every rank, between steps.
  std::vector<std::byte> save() const {
    std::vector<std::byte> state;
    append(state, &steps_, sizeof steps_);
    for (const RuleState& one : states_) {
      append(state, one.first.data(), one.first.size() * sizeof(float));
      append(state, one.second.data(), one.second.size() * sizeof(float));
    }
    const std::size_t own = state.size();
    std::size_t size = 0;
    check(hvd_gradients_save(gradients_.get(), nullptr, 0, &size));
    state.resize(own + size);
    check(hvd_gradients_save(gradients_.get(), state.data() + own, size, &size));
    return state;
  }

  /// Takes over what save() gave for the same parameters, rule and compression.
  void load(std::span<const std::byte> state) {
    std::size_t own = sizeof steps_;
    for (const RuleState& one : states_) {
      own += (one.first.size() + one.second.size()) * sizeof(float);
    }
    if (state.size() < own) {
      throw Error(HVD_INVALID_ARGUMENT, "the saved state has " + std::to_string(state.size()) +
                                            " bytes, this optimizer needs at least " +
                                            std::to_string(own));
    }
    const auto compression = state.subspan(own);
    check(hvd_gradients_load(gradients_.get(), compression.data(), compression.size()));
    take(state, &steps_, sizeof steps_);
    for (RuleState& one : states_) {
      take(state, one.first.data(), one.first.size() * sizeof(float));
      take(state, one.second.data(), one.second.size() * sizeof(float));
    }
  }

  /// Time that step() has waited for other ranks and for bytes, since construction.
  std::chrono::duration<double> waited() const { return waited_; }
  std::span<const Parameter> parameters() const { return parameters_; }

 private:
  static void check_options(const OptimizerOptions& options) {
    if (!options.difference_op || (options.clip_norm == 0 && !options.mean_over_passes)) return;
    throw Error(HVD_UNSUPPORTED,
                "difference_op with clip_norm " + std::to_string(options.clip_norm) +
                    " and mean_over_passes " + (options.mean_over_passes ? "true" : "false") +
                    ": the step is local, so scale and clip this rank's gradients before step()");
  }

  hvd_gradients* create(const OptimizerOptions& options) const {
    check_options(options);
    std::vector<const char*> names;
    std::vector<std::vector<std::int64_t>> shapes;
    std::vector<hvd_tensor> tensors;
    shapes.reserve(parameters_.size());
    for (const Parameter& parameter : parameters_) {
      shapes.push_back(checked_shape(parameter));
      names.push_back(parameter.name.c_str());
      hvd_tensor tensor{};
      tensor.dtype = HVD_FLOAT32;
      tensor.dimensions = static_cast<std::int32_t>(shapes.back().size());
      tensor.shape = shapes.back().data();
      tensors.push_back(tensor);
    }
    hvd_gradients_options given = HVD_GRADIENTS_OPTIONS_INITIALIZER;
    given.passes_per_step = steps_locally_ ? 1 : options.passes_per_step;
    given.mean_over_passes = options.mean_over_passes ? 1 : 0;
    given.predivide = options.predivide;
    given.clip_norm = options.clip_norm;
    given.process_set = options.process_set;
    if (options.difference_op) given.reduce_op = *options.difference_op;
    hvd_gradients* created = nullptr;
    check(hvd_gradients_create(&given, names.data(), tensors.data(),
                               static_cast<std::uint32_t>(parameters_.size()), &created));
    return created;
  }

  static std::vector<std::int64_t> checked_shape(const Parameter& parameter) {
    std::vector<std::int64_t> shape = parameter.shape;
    if (shape.empty()) shape.push_back(static_cast<std::int64_t>(parameter.values.size()));
    std::size_t count = 1;
    for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
    if (parameter.values.size() == parameter.gradients.size() && parameter.values.size() == count) {
      return shape;
    }
    throw Error(HVD_INVALID_ARGUMENT, "parameter '" + parameter.name + "' has " +
                                          std::to_string(parameter.values.size()) + " values, " +
                                          std::to_string(parameter.gradients.size()) +
                                          " gradients and a shape of " + std::to_string(count) +
                                          " elements");
  }

  void ready(std::size_t index, float* data, int last_pass) {
    check(hvd_gradient_ready(gradients_.get(), static_cast<std::uint32_t>(index), data, last_pass));
  }

  void clear() {
    for (const Parameter& parameter : parameters_) {
      for (float& gradient : parameter.gradients) gradient = 0;
    }
    is_synchronized_ = false;
  }

  void wait() {
    const auto begin = std::chrono::steady_clock::now();
    const hvd_status status = hvd_gradients_wait(gradients_.get(), -1);
    waited_ += std::chrono::steady_clock::now() - begin;
    check(status);
  }

  void update(std::size_t index) {
    const Parameter& parameter = parameters_[index];
    const auto number = static_cast<std::uint32_t>(index);
    float* const values = parameter.values.data();
    if (steps_locally_) check(hvd_gradient_start(gradients_.get(), number, values));
    const Update update{parameter.values, parameter.gradients, states_[index], steps_,
                        parameter.shape.size() <= 1};
    std::visit([&update](const auto& rule) { apply(rule, update); }, rule_);
    if (steps_locally_) ready(index, values, 1);
  }

  static void append(std::vector<std::byte>& state, const void* from, std::size_t size) {
    const auto* const bytes = static_cast<const std::byte*>(from);
    state.insert(state.end(), bytes, bytes + size);
  }
  static void take(std::span<const std::byte>& state, void* to, std::size_t size) {
    if (size > 0) std::memcpy(to, state.data(), size);
    state = state.subspan(size);
  }

  std::vector<Parameter> parameters_;
  Rule rule_;
  bool steps_locally_;
  detail::OwnedGradients gradients_;
  std::vector<RuleState> states_;
  std::int64_t steps_ = 0;
  bool is_synchronized_ = false;
  std::chrono::duration<double> waited_{0};
};

}  // namespace hvd
