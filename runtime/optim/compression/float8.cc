// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "collective/float8_bits.h"
#include "collective/operation.h"
#include "optim/compression/methods.h"

namespace hvd {

namespace {

/// The power of two that brings `largest` into the upper half of the format's range. Powers of two
/// alone: scaling then rounds nothing.
template <typename Format>
float scale_for(float largest) {
  int exponent = 0;
  std::frexp(largest / Format::kLargest, &exponent);
  // Below 2^-126 the scale would be subnormal, and its inverse infinite.
  return std::ldexp(1.0F, std::max(exponent, -120));
}

/// Takes a pointer, not a member: bytes may alias anything, and the loop has to be vectorised.
template <typename Format>
void quantise(std::span<const float> values, float factor, std::uint8_t* codes) {
  const float* const from = values.data();
  const std::size_t count = values.size();

  for (std::size_t i = 0; i < count; ++i) codes[i] = float_to_float8<Format>(from[i] * factor);
}

/// What one more exchange has to save in received bytes to pay for itself: about what a 10 Gbit/s
/// link moves in the time of an exchange.
constexpr double kWorthAnExchange = 65'536;

/// After the scale is agreed, few ranks or small gradients gather the codes of all ranks. Else each
/// rank receives one share of the elements from all (alltoall), sums it, and the sums are gathered
/// in 8 bits again: 2 (N - 1) / N bytes per element instead of N - 1, for a second rounding.
///
/// No error feedback: the relative error of a rounding is at most 2^-4 (e4m3) or 2^-3 (e5m2) and
/// has no preferred sign; only elements some 2^-18 (2^-32) times the largest become zero.
template <typename Format>
class Float8 : public Compressor {
 public:
  explicit Float8(std::size_t count) : codes_(count) {}

  Exchange begin(const Task& task) override {
    gradient_ = task.gradient;
    ranks_ = task.ranks;
    factor_ = task.allreduce.prescale * task.allreduce.postscale;
    if (task.allreduce.op == ReduceOp::kSum) factor_ *= task.ranks;
    stage_ = Stage::kScale;
    largest_ = largest_magnitude(gradient_);
    return {"scale", Allreduce{.op = ReduceOp::kMax},
            Tensor{.input = &largest_, .output = &largest_, .shape = {1}}};
  }

  Result<std::optional<Exchange>> resume(const GatherResult* gathered) override {
    switch (stage_) {
      case Stage::kScale:
        return encode();
      case Stage::kCodes:
        HVD_TRY(check_rows(*gathered, gradient_.size(), "fp8"));
        sum_codes(gathered, gradient_);
        for (float& value : gradient_) value *= static_cast<float>(factor_ * scale_);
        return std::optional<Exchange>();
      case Stage::kShares:
        return encode_share(gathered);
      case Stage::kSums:
        break;
    }
    std::int64_t sums = 0;
    for (const std::int64_t rows : gathered->rows) sums += rows;
    if (static_cast<std::size_t>(sums) != gradient_.size()) {
      return error(Code::kMismatch,
                   "compression fp8: {} sums came, {} were due; use gradients of one shape and one "
                   "method on all ranks",
                   sums, gradient_.size());
    }
    const auto* codes = reinterpret_cast<const std::uint8_t*>(gathered->data.get());
    const auto factor = static_cast<float>(factor_ * scale_);
    for (float& value : gradient_) value = factor * kFloat8Values<Format>[*codes++];
    return std::optional<Exchange>();
  }

  bool is_finite() const override { return hvd::is_finite(gradient_); }

  void finish(bool /*counts*/) override {
    if (is_finite()) return;
    std::fill(gradient_.begin(), gradient_.end(), std::numeric_limits<float>::quiet_NaN());
  }

 private:
  enum class Stage { kScale, kCodes, kShares, kSums };

  std::optional<Exchange> send(Stage stage, std::string_view name, const Operation& operation,
                               std::size_t count) {
    stage_ = stage;
    return Exchange{name, operation,
                    Tensor{.input = codes_.data(),
                           .dtype = DataType::kUint8,
                           .shape = {static_cast<std::int64_t>(count)}}};
  }

  Result<std::optional<Exchange>> encode() {
    if (!std::isfinite(largest_) || largest_ == 0) {
      const float all = largest_ == 0 ? 0.0F : std::numeric_limits<float>::quiet_NaN();
      std::fill(gradient_.begin(), gradient_.end(), all);
      return std::optional<Exchange>();
    }
    scale_ = scale_for<Format>(largest_);
    quantise<Format>(gradient_, 1 / scale_, codes_.data());
    const double gathered = static_cast<double>(codes_.size()) * (ranks_ - 1);
    if (gathered * (1 - 2.0 / ranks_) < kWorthAnExchange) {
      return send(Stage::kCodes, "codes", Allgather{}, codes_.size());
    }
    auto shares = send(Stage::kShares, "shares", Alltoall{}, codes_.size());
    // Elements seldom divide by the ranks: the first ranks take one more.
    const auto ranks = static_cast<std::size_t>(ranks_);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      shares->tensor.splits.push_back(static_cast<std::int64_t>(
          first_row_of(codes_.size(), ranks, rank + 1) - first_row_of(codes_.size(), ranks, rank)));
    }
    return shares;
  }

  /// The mean of all ranks' codes, added in the order of the ranks: the same bits everywhere.
  static void sum_codes(const GatherResult* gathered, std::span<float> means) {
    const auto* codes = reinterpret_cast<const std::uint8_t*>(gathered->data.get());
    const auto divisor = static_cast<float>(gathered->rows.size());
    const std::size_t count = means.size();
    float* const sums = means.data();
    std::fill(means.begin(), means.end(), 0.0F);
    for (std::size_t rank = 0; rank < gathered->rows.size(); ++rank, codes += count) {
      for (std::size_t i = 0; i < count; ++i) sums[i] += kFloat8Values<Format>[codes[i]];
    }
    for (float& mean : means) mean /= divisor;
  }

  /// A mean is within the range of what it is the mean of: the same scale holds it.
  Result<std::optional<Exchange>> encode_share(const GatherResult* gathered) {
    const auto rows = static_cast<std::size_t>(gathered->rows.front());
    HVD_TRY(check_rows(*gathered, rows, "fp8"));
    if (rows > gradient_.size()) {
      return error(Code::kMismatch, "compression fp8: a share of {} elements of {}", rows,
                   gradient_.size());
    }
    const std::span share = gradient_.first(rows);
    sum_codes(gathered, share);
    quantise<Format>(share, 1, codes_.data());
    return send(Stage::kSums, "sums", Allgather{}, share.size());
  }

  std::vector<std::uint8_t> codes_;
  std::span<float> gradient_;
  int ranks_ = 1;
  double factor_ = 1;  ///< Of the mean.
  float largest_ = 0;
  float scale_ = 1;
  Stage stage_ = Stage::kScale;
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
