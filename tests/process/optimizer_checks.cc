// SPDX-License-Identifier: Apache-2.0
// Run by N ranks: the optimizer's rules against plain formulas in float64, its state saved and
// loaded in the middle of training, and what its constructor refuses.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "hvd/hvd.hpp"

namespace {

using Vector = std::vector<float>;

constexpr std::size_t kWeights = 2'000;

int failures = 0;

void expect(bool holds, const std::string& what) {
  if (holds) return;
  std::printf("FAILED: %s\n", what.c_str());
  ++failures;
}

/// Numbers of a step and a rank that look random.
Vector noise(std::size_t count, std::uint32_t seed) {
  Vector values(count);
  std::uint32_t state = seed * 2654435761U + 1;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<std::int32_t>(state)) / 2147483648.0F;
  }
  return values;
}

/// A matrix and a vector, trained by noise.
struct Model {
  Vector weight = noise(kWeights, 77);
  Vector weight_gradient = Vector(kWeights);
  Vector bias = noise(10, 78);
  Vector bias_gradient = Vector(10);
  std::vector<std::int64_t> bias_shape = {10};

  std::vector<hvd::Parameter> parameters() {
    return {{"weight", weight, weight_gradient, {40, 50}},
            {"bias", bias, bias_gradient, bias_shape}};
  }
  void backward(int rank, int step) {
    const auto seed = static_cast<std::uint32_t>(100 * step + rank);
    copy(noise(weight.size(), seed), weight_gradient);
    copy(noise(bias.size(), seed + 50), bias_gradient);
  }
  /// Into the memory that the optimizer knows.
  static void copy(const Vector& from, Vector& to) {
    std::copy(from.begin(), from.end(), to.begin());
  }
};

double norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

/// One parameter of the plain reference.
struct Plain {
  std::vector<double> w, m, v;
  bool is_vector;

  explicit Plain(const Vector& start, bool vector)
      : w(start.begin(), start.end()), m(w.size()), v(w.size()), is_vector(vector) {}

  void step(const hvd::Lars& rule, const std::vector<double>& g, int /*step*/) {
    const double ratio =
        is_vector ? 1 : rule.coefficient * norm(w) / (norm(g) + rule.weight_decay * norm(w));
    for (std::size_t i = 0; i < w.size(); ++i) {
      m[i] = rule.momentum * m[i] + rule.learning_rate * ratio * (g[i] + rule.weight_decay * w[i]);
      w[i] -= m[i];
    }
  }
  void step(const hvd::Lamb& rule, const std::vector<double>& g, int step) {
    std::vector<double> update(w.size());
    for (std::size_t i = 0; i < w.size(); ++i) {
      m[i] = rule.beta1 * m[i] + (1 - rule.beta1) * g[i];
      v[i] = rule.beta2 * v[i] + (1 - rule.beta2) * g[i] * g[i];
      const double mean = m[i] / (1 - std::pow(rule.beta1, step));
      const double square = v[i] / (1 - std::pow(rule.beta2, step));
      update[i] = mean / (std::sqrt(square) + rule.epsilon) + rule.weight_decay * w[i];
    }
    const double ratio = is_vector ? 1 : norm(w) / norm(update);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] -= rule.learning_rate * ratio * update[i];
  }
};

std::vector<double> average(const hvd::Context& job, int step, bool bias) {
  std::vector<double> sum;
  for (int rank = 0; rank < job.size(); ++rank) {
    Model model;
    model.backward(rank, step);
    const Vector& one = bias ? model.bias_gradient : model.weight_gradient;
    sum.resize(one.size());
    for (std::size_t i = 0; i < one.size(); ++i) sum[i] += static_cast<double>(one[i]) / job.size();
  }
  return sum;
}

template <typename Rule>
void check_rule(const hvd::Context& job, const Rule& rule, const std::string& name,
                const std::vector<std::int64_t>& bias_shape) {
  Model model;
  model.bias_shape = bias_shape;
  Plain weight(model.weight, false);
  Plain bias(model.bias, true);
  hvd::DistributedOptimizer optimizer(model.parameters(), rule);
  double worst = 0;
  for (int step = 1; step <= 5; ++step) {
    model.backward(job.rank(), step);
    optimizer.step();
    weight.step(rule, average(job, step, false), step);
    bias.step(rule, average(job, step, true), step);
    for (std::size_t i = 0; i < weight.w.size(); ++i) {
      worst = std::fmax(worst, std::fabs(weight.w[i] - model.weight[i]));
    }
    for (std::size_t i = 0; i < bias.w.size(); ++i) {
      worst = std::fmax(worst, std::fabs(bias.w[i] - model.bias[i]));
    }
  }
  std::printf("%s: largest difference from the formula %.2g\n", name.c_str(), worst);
  expect(worst < 1e-5, name + " is not its formula");
}

/// Training that is saved and loaded goes on with the same bits as training that is not.
void check_state(const hvd::Context& job, const hvd::Compression& compression) {
  const std::string name = "state of method " + std::to_string(compression.method);
  const hvd::Adam rule{.learning_rate = 0.01};
  const hvd::OptimizerOptions options{.compression = compression};
  Model whole;
  hvd::DistributedOptimizer first(whole.parameters(), rule, options);
  for (int step = 1; step <= 3; ++step) {
    whole.backward(job.rank(), step);
    first.step();
  }
  Model resumed;
  Model::copy(whole.weight, resumed.weight);
  Model::copy(whole.bias, resumed.bias);
  hvd::DistributedOptimizer second(resumed.parameters(), rule, options);
  second.load(first.save());
  for (int step = 4; step <= 6; ++step) {
    whole.backward(job.rank(), step);
    resumed.backward(job.rank(), step);
    first.step();
    second.step();
  }
  expect(whole.weight == resumed.weight && whole.bias == resumed.bias, name + " is not whole");
  auto state = first.save();
  state.pop_back();
  try {
    second.load(state);
    expect(false, name + " cut short was taken");
  } catch (const hvd::Error& failure) {
    expect(failure.status() == HVD_INVALID_ARGUMENT, failure.what());
  }
}

/// Training whose loss is scaled ends where training without a scale does, also when one rank
/// overflows in a step that is skipped.
void check_loss_scale(const hvd::Context& job, const hvd::Compression& compression) {
  const hvd::OptimizerOptions options{.compression = compression};
  Model plain;
  Model scaled;
  hvd::DistributedOptimizer first(plain.parameters(), hvd::Sgd{.learning_rate = 0.1}, options);
  hvd::DistributedOptimizer second(scaled.parameters(), hvd::Sgd{.learning_rate = 0.1}, options);
  const auto multiply = [&scaled](float factor) {
    for (float& one : scaled.weight_gradient) one *= factor;
    for (float& one : scaled.bias_gradient) one *= factor;
  };
  int skipped = 0;
  float scale = 65'536;
  for (int step = 1; step <= 9; ++step) {
    plain.backward(job.rank(), step);
    first.step();
    for (bool is_done = false; !is_done;) {
      second.set_loss_scale(scale);
      scaled.backward(job.rank(), step);
      multiply(scale);
      if (step == 5 && skipped == 0 && job.rank() == 0) scaled.bias_gradient[1] = INFINITY;
      second.gradient_ready(0);
      second.synchronize();
      is_done = std::isfinite(scaled.bias_gradient[1]);
      if (!is_done) {
        second.skip_step();
        ++skipped;
        scale /= 2;
        continue;
      }
      multiply(1 / scale);
      second.step();
    }
    if (step % 2 == 0) scale *= step % 4 == 0 ? 0.5F : 4;
  }
  expect(skipped == 1, "a step with an infinite gradient was skipped " + std::to_string(skipped));
  double worst = 0;
  for (std::size_t i = 0; i < plain.weight.size(); ++i) {
    worst = std::fmax(worst, std::fabs(plain.weight[i] - scaled.weight[i]));
  }
  std::printf("loss scale, method %d: largest difference %.2g\n", compression.method, worst);
  expect(worst < 1e-4, "training depends on the loss scale");
}

void check_clipping(const hvd::Context& job) {
  Model model;
  hvd::DistributedOptimizer optimizer(model.parameters(), hvd::Sgd{.learning_rate = 1},
                                      {.predivide = 4, .clip_norm = 0.5});
  const Vector before = model.weight;
  model.backward(job.rank(), 1);
  optimizer.step();
  std::vector<double> change(before.size());
  for (std::size_t i = 0; i < before.size(); ++i) change[i] = before[i] - model.weight[i];
  const double weight_norm = norm(average(job, 1, false));
  const double global = std::hypot(weight_norm, norm(average(job, 1, true)));
  expect(std::fabs(optimizer.last_norm() - global) < 1e-4, "the global norm is wrong");
  expect(std::fabs(norm(change) - 0.5 * weight_norm / global) < 1e-4, "the step was not clipped");
}

void check_refusals() {
  Model model;
  const hvd::Compression moving{.method = HVD_COMPRESS_TOP_K, .momentum = 0.9};
  for (const hvd::Rule& rule : {hvd::Rule(hvd::Sgd{.momentum = 0.9}), hvd::Rule(hvd::Adam{})}) {
    try {
      const hvd::DistributedOptimizer wrong(model.parameters(), rule, {.compression = moving});
      expect(false, "two momenta were taken");
    } catch (const hvd::Error& failure) {
      expect(failure.status() == HVD_INVALID_ARGUMENT, failure.what());
    }
  }
  auto parameters = model.parameters();
  parameters[0].shape = {40, 49};
  try {
    const hvd::DistributedOptimizer wrong(parameters, hvd::Sgd{});
    expect(false, "a shape that does not fit was taken");
  } catch (const hvd::Error& failure) {
    expect(failure.status() == HVD_INVALID_ARGUMENT, failure.what());
  }
  for (const hvd::OptimizerOptions& options :
       {hvd::OptimizerOptions{.clip_norm = 1, .difference_op = HVD_AVERAGE},
        hvd::OptimizerOptions{
            .passes_per_step = 4, .mean_over_passes = true, .difference_op = HVD_ADASUM}}) {
    try {
      const hvd::DistributedOptimizer wrong(model.parameters(), hvd::Sgd{}, options);
      expect(false, "differences were taken with options that do nothing to them");
    } catch (const hvd::Error& failure) {
      expect(failure.status() == HVD_UNSUPPORTED, failure.what());
    }
  }
  expect(hvd_rate_factor(HVD_RATE_CONSTANT, 4) == 1 && hvd_rate_factor(HVD_RATE_LINEAR, 4) == 4 &&
             hvd_rate_factor(HVD_RATE_SQUARE_ROOT, 4) == 2,
         "the factor of each rule");
  expect(std::isnan(hvd_rate_factor(HVD_RATE_CONSTANT - 1, 2)) &&
             std::isnan(hvd_rate_factor(HVD_RATE_SQUARE_ROOT + 1, 2)),
         "a number that is no rule");
  expect(std::isnan(hvd_rate_factor(9, 2)) && std::isnan(hvd_rate_factor(HVD_RATE_LINEAR, 0)),
         "a wrong rate factor is not NaN");
  expect(hvd_rate_factor(HVD_RATE_SQUARE_ROOT, 16) == 4, "the square root rule is wrong");
}

/// One method for a set: floats travel as halves, integers as they are.
void check_a_method_for_all() {
  hvd_gradients_options options = HVD_GRADIENTS_OPTIONS_INITIALIZER;
  options.compression = HVD_COMPRESS_FLOAT16;
  const std::int64_t count = 5000;                     // more than what goes whole by default
  std::vector<float> singles(count, 1 + 1.0F / 4096);  // no half has it
  std::vector<double> doubles(count, 1 + 1.0 / 4096);
  std::vector<std::int32_t> integers(count, 4097);
  const char* const names[] = {"singles", "doubles", "integers"};
  void* const data[] = {singles.data(), doubles.data(), integers.data()};
  hvd_tensor tensors[3] = {};
  for (hvd_tensor& tensor : tensors) {
    tensor.dimensions = 1;
    tensor.shape = &count;
  }
  tensors[0].dtype = HVD_FLOAT32;
  tensors[1].dtype = HVD_FLOAT64;
  tensors[2].dtype = HVD_INT32;
  hvd_gradients* set = nullptr;
  expect(hvd_gradients_create(&options, names, tensors, 3, &set) == HVD_OK, hvd_last_error());
  for (std::uint32_t i = 0; i < 3; ++i) {
    expect(hvd_gradient_ready(set, i, data[i], 1) == HVD_OK, hvd_last_error());
  }
  expect(hvd_gradients_wait(set, 60) == HVD_OK, hvd_last_error());
  expect(singles.back() == 1, "a float32 did not travel as a half");
  expect(doubles.back() == 1, "a float64 did not travel as a half");
  expect(integers.back() == 4097, "an integer did");
  for (const int sharing : {HVD_REDUCED, HVD_LOCAL_SCALED}) {
    expect(hvd_gradient_share(set, 0, sharing) == HVD_OK, hvd_last_error());
  }
  for (const int sharing : {HVD_REDUCED - 1, HVD_LOCAL_SCALED + 1}) {
    expect(hvd_gradient_share(set, 0, sharing) == HVD_INVALID_ARGUMENT, "no such sharing");
  }
  hvd_gradients_destroy(set);
}

}  // namespace

int main() {
  try {
    const hvd::Context job;
    for (const auto& shape : {std::vector<std::int64_t>{10}, {}}) {
      const std::string of = shape.empty() ? " of a flat bias" : "";
      check_rule(job, hvd::Lars{.learning_rate = 0.5, .coefficient = 0.01}, "LARS" + of, shape);
      check_rule(job, hvd::Lamb{.learning_rate = 0.01}, "LAMB" + of, shape);
    }
    check_state(job, {});
    check_state(job, {.method = HVD_COMPRESS_TOP_K, .ratio = 0.05});
    check_state(job, {.method = HVD_COMPRESS_POWER_SGD});
    check_loss_scale(job, {.method = HVD_COMPRESS_TOP_K, .ratio = 0.05});
    check_loss_scale(job, {.method = HVD_COMPRESS_TOP_K, .ratio = 0.05, .momentum = 0.9});
    check_loss_scale(job, {.method = HVD_COMPRESS_POWER_SGD});
    check_loss_scale(job, {.method = HVD_COMPRESS_FLOAT8_E4M3});
    check_clipping(job);
    check_refusals();
    check_a_method_for_all();
    return failures == 0 ? 0 : 1;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "optimizer_checks: %s\n", failure.what());
    return 1;
  }
}
