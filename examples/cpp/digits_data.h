// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <numeric>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace digits {

inline constexpr std::size_t kPixels = 64;
inline constexpr std::size_t kClasses = 10;

/// Images with pixels in 0..1, and their digits.
struct Set {
  std::vector<float> pixels;  ///< [size][kPixels]
  std::vector<int> labels;    ///< [size]

  std::size_t size() const { return labels.size(); }
  const float* image(std::size_t index) const { return &pixels[index * kPixels]; }
};

struct Split {
  Set train;
  Set test;  ///< Every fifth image.
};

inline Split load(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path + "; give its place with --data");
  Split split;
  std::string line;
  for (std::size_t number = 0; std::getline(file, line); ++number) {
    Set& set = number % 5 == 4 ? split.test : split.train;
    std::istringstream fields(line);
    std::string field;
    std::vector<int> values;
    while (std::getline(fields, field, ',')) values.push_back(std::stoi(field));
    if (values.size() != kPixels + 1) {
      throw std::runtime_error(path + " line " + std::to_string(number + 1) + ": " +
                               std::to_string(values.size()) + " numbers, 65 expected");
    }
    for (std::size_t i = 0; i < kPixels; ++i) {
      set.pixels.push_back(static_cast<float>(values[i]) / 16.0F);
    }
    set.labels.push_back(values[kPixels]);
  }
  return split;
}

/// The order of an epoch: the same on every rank, without communication.
inline std::vector<std::size_t> shuffled(std::size_t count, std::uint32_t epoch) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937 random(1234 + epoch);
  // Not std::shuffle: its result differs between standard libraries.
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  return order;
}

}  // namespace digits
