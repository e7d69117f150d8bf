// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "digits_data.h"

namespace digits {

/// Two fully connected layers with a rectifier between and softmax cross-entropy at the end,
/// written out by hand.
class Network {
 public:
  static constexpr std::size_t kBuffers = 4;
  static constexpr std::array<const char*, kBuffers> kNames{"hidden.weight", "hidden.bias",
                                                            "output.weight", "output.bias"};

  Network(std::size_t hidden, std::uint32_t seed) : hidden_(hidden) {
    const std::array<std::size_t, kBuffers> sizes{hidden * kPixels, hidden, kClasses * hidden,
                                                  kClasses};
    std::mt19937 random(seed);
    for (std::size_t i = 0; i < kBuffers; ++i) {
      values_[i].resize(sizes[i]);
      gradients_[i].resize(sizes[i]);
      if (i % 2 == 1) continue;  // biases start at zero
      const float limit = std::sqrt(6.0F / static_cast<float>(i == 0 ? kPixels : hidden));
      for (float& value : values_[i]) {
        value = limit * (2.0F * static_cast<float>(random()) / 4294967296.0F - 1.0F);
      }
    }
  }

  std::vector<std::int64_t> shape(std::size_t buffer) const {
    const auto hidden = static_cast<std::int64_t>(hidden_);
    const auto outputs = static_cast<std::int64_t>(buffer < 2 ? hidden_ : kClasses);
    if (buffer % 2 == 1) return {outputs};
    return {outputs, buffer == 0 ? static_cast<std::int64_t>(kPixels) : hidden};
  }
  std::span<float> values(std::size_t buffer) { return values_[buffer]; }
  std::span<float> gradients(std::size_t buffer) { return gradients_[buffer]; }

  /// The digit with the highest score.
  int classify(const float* image) const {
    std::vector<float> hidden(hidden_);
    std::array<float, kClasses> scores;
    forward(image, hidden, scores);
    return static_cast<int>(std::max_element(scores.begin(), scores.end()) - scores.begin());
  }

  /// Adds the gradients of the mean loss over the images `chosen` and returns that loss. Calls
  /// `ready` with each buffer as soon as its gradient is complete: the last layer comes first.
  double backward(const Set& set, std::span<const std::size_t> chosen,
                  const std::function<void(std::size_t)>& ready) {
    const std::size_t count = chosen.size();
    std::vector<std::vector<float>> hidden(count, std::vector<float>(hidden_));
    std::vector<std::array<float, kClasses>> errors(count);
    double loss = 0;
    for (std::size_t k = 0; k < count; ++k) {
      forward(set.image(chosen[k]), hidden[k], errors[k]);
      loss += softmax_error(errors[k], set.labels[chosen[k]], count);
    }
    for (std::size_t k = 0; k < count; ++k) output_gradient(hidden[k], errors[k]);
    ready(3);
    ready(2);
    for (std::size_t k = 0; k < count; ++k) {
      hidden_gradient(set.image(chosen[k]), hidden[k], errors[k]);
    }
    ready(1);
    ready(0);
    return loss / static_cast<double>(count);
  }

 private:
  void forward(const float* image, std::vector<float>& hidden,
               std::array<float, kClasses>& scores) const {
    for (std::size_t j = 0; j < hidden_; ++j) {
      float sum = values_[1][j];
      for (std::size_t i = 0; i < kPixels; ++i) sum += values_[0][j * kPixels + i] * image[i];
      hidden[j] = std::max(sum, 0.0F);
    }
    for (std::size_t c = 0; c < kClasses; ++c) {
      float sum = values_[3][c];
      for (std::size_t j = 0; j < hidden_; ++j) sum += values_[2][c * hidden_ + j] * hidden[j];
      scores[c] = sum;
    }
  }

  /// Turns scores into the gradient of the loss with respect to them; returns the loss.
  static double softmax_error(std::array<float, kClasses>& scores, int label, std::size_t count) {
    const float highest = *std::max_element(scores.begin(), scores.end());
    float total = 0;
    for (float& score : scores) {
      score = std::exp(score - highest);
      total += score;
    }
    const auto correct = static_cast<std::size_t>(label);
    const double loss = -std::log(std::max(scores[correct] / total, 1e-30F));
    for (float& score : scores) score /= total;
    scores[correct] -= 1;
    for (float& score : scores) score /= static_cast<float>(count);
    return loss;
  }

  void output_gradient(const std::vector<float>& hidden,
                       const std::array<float, kClasses>& errors) {
    for (std::size_t c = 0; c < kClasses; ++c) {
      gradients_[3][c] += errors[c];
      for (std::size_t j = 0; j < hidden_; ++j) {
        gradients_[2][c * hidden_ + j] += errors[c] * hidden[j];
      }
    }
  }

  void hidden_gradient(const float* image, const std::vector<float>& hidden,
                       const std::array<float, kClasses>& errors) {
    for (std::size_t j = 0; j < hidden_; ++j) {
      if (hidden[j] <= 0) continue;
      float error = 0;
      for (std::size_t c = 0; c < kClasses; ++c) error += errors[c] * values_[2][c * hidden_ + j];
      gradients_[1][j] += error;
      for (std::size_t i = 0; i < kPixels; ++i) gradients_[0][j * kPixels + i] += error * image[i];
    }
  }

  std::size_t hidden_;
  std::array<std::vector<float>, kBuffers> values_;
  std::array<std::vector<float>, kBuffers> gradients_;
};

}  // namespace digits
