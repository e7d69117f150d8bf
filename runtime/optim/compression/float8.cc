// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "collective/float8_bits.h"
#include "optim/compression/methods.h"

namespace hvd {

namespace {

/// The largest magnitude; NaN where there is one. As bits, floats order like integers.
float largest_magnitude(std::span<const float> values) {
  std::uint32_t largest = 0;
  for (const float value : values) {
    largest = std::max(largest, std::bit_cast<std::uint32_t>(value) & 0x7fffffffU);
  }
  return std::bit_cast<float>(largest);
}

/// The power of two that brings `largest` into the upper half of the format's range. Powers of two
/// alone: scaling then rounds nothing.
template <typename Format>
float scale_for(float largest) {
  int exponent = 0;
  std::frexp(largest / Format::kLargest, &exponent);
  // Below 2^-126 the scale would be subnormal, and its inverse infinite.
  return std::ldexp(1.0F, std::max(exponent, -120));
}

/// No error feedback: the relative error of an element is at most 2^-4 (e4m3) or 2^-3 (e5m2) and
/// has no preferred sign; only elements some 2^-18 (2^-32) times the largest become zero.
template <typename Format>
class Float8 : public Compressor {
 public:
  explicit Float8(std::size_t count) : codes_(count) {}

  Exchange begin(std::span<float> gradient, const Allreduce& allreduce) override {
    gradient_ = gradient;
    allreduce_ = allreduce;
    has_scale_ = false;
    largest_ = largest_magnitude(gradient);
    return {"scale", Allreduce{.op = ReduceOp::kMax},
            Tensor{.input = &largest_, .output = &largest_, .shape = {1}}};
  }

  Result<std::optional<Exchange>> resume(const GatherResult* gathered) override {
    if (has_scale_) return decode(gathered);
    has_scale_ = true;
    if (!std::isfinite(largest_) || largest_ == 0) {
      const float all = largest_ == 0 ? 0.0F : std::numeric_limits<float>::quiet_NaN();
      std::fill(gradient_.begin(), gradient_.end(), all);
      return std::optional<Exchange>();
    }
    scale_ = scale_for<Format>(largest_);
    const float inverse = 1 / scale_;
    for (std::size_t i = 0; i < codes_.size(); ++i) {
      codes_[i] = float_to_float8<Format>(gradient_[i] * inverse);
    }
    return std::optional(Exchange{"codes", Allgather{},
                                  Tensor{.input = codes_.data(),
                                         .dtype = DataType::kUint8,
                                         .shape = {static_cast<std::int64_t>(codes_.size())}}});
  }

 private:
  /// Sums in the order of the ranks, in float32: the same bits everywhere.
  Result<std::optional<Exchange>> decode(const GatherResult* gathered) {
    const auto ranks = gathered->rows.size();
    const auto* codes = reinterpret_cast<const std::uint8_t*>(gathered->data.get());
    const std::size_t count = codes_.size();
    double factor = allreduce_.prescale * allreduce_.postscale * scale_;
    if (allreduce_.op == ReduceOp::kAverage) factor /= static_cast<double>(ranks);
    std::fill(gradient_.begin(), gradient_.end(), 0.0F);
    for (std::size_t rank = 0; rank < ranks; ++rank, codes += count) {
      for (std::size_t i = 0; i < count; ++i) gradient_[i] += kFloat8Values<Format>[codes[i]];
    }
    const auto all = static_cast<float>(factor);
    for (float& value : gradient_) value *= all;
    return std::optional<Exchange>();
  }

  std::vector<std::uint8_t> codes_;
  std::span<float> gradient_;
  Allreduce allreduce_;
  float largest_ = 0;
  float scale_ = 1;
  bool has_scale_ = false;
};

}  // namespace

std::unique_ptr<Compressor> make_float8_e4m3(const Compression& /*compression*/,
                                             std::string_view /*name*/, const Tensor& gradient) {
  return std::make_unique<Float8<Float8E4m3>>(count_of(gradient));
}

std::unique_ptr<Compressor> make_float8_e5m2(const Compression& /*compression*/,
                                             std::string_view /*name*/, const Tensor& gradient) {
  return std::make_unique<Float8<Float8E5m2>>(count_of(gradient));
}

}  // namespace hvd
