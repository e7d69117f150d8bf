// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <vector>

#include "optim/compression/methods.h"

namespace hvd {

namespace {

std::uint32_t magnitude_bits(float value) {
  return std::bit_cast<std::uint32_t>(value) & 0x7fffffffU;
}

/// The k-th largest magnitude, and how many of exactly that belong to the k.
struct Threshold {
  std::uint32_t bits = 0;
  std::size_t equal = 0;
};

/// By counting, ten or eleven bits at a time: exact, without memory, and defined for NaN.
Threshold kth_largest(std::span<const float> values, std::size_t k) {
  struct Digit {
    unsigned shift;
    std::uint32_t mask;
    unsigned above;  ///< Shift that leaves the digits already known.
  };
  constexpr Digit kDigits[] = {{20, 2047, 31}, {10, 1023, 20}, {0, 1023, 10}};
  Threshold threshold{0, k};
  for (const Digit digit : kDigits) {
    std::array<std::size_t, 2048> counts{};
    for (const float value : values) {
      const std::uint32_t bits = magnitude_bits(value);
      if ((bits ^ threshold.bits) >> digit.above == 0) ++counts[bits >> digit.shift & digit.mask];
    }
    std::size_t found = digit.mask;
    while (counts[found] < threshold.equal) threshold.equal -= counts[found--];
    threshold.bits |= static_cast<std::uint32_t>(found) << digit.shift;
  }
  return threshold;
}

class TopK : public Compressor {
 public:
  TopK(std::size_t count, std::size_t k) : residual_(count), message_(2 * k), k_(k) {}

  Exchange begin(std::span<float> gradient, const Allreduce& allreduce, int /*ranks*/) override {
    gradient_ = gradient;
    allreduce_ = allreduce;
    if (is_finite(gradient)) {
      for (std::size_t i = 0; i < gradient.size(); ++i) residual_[i] += gradient[i];
      choose(residual_);
      for (std::size_t j = 0; j < k_; ++j) residual_[message_[j]] = 0;
    } else {
      choose(gradient);  // The step is lost; what earlier ones left out is not.
    }
    return {"top", Allgather{},
            Tensor{.input = message_.data(),
                   .dtype = DataType::kUint32,
                   .shape = {static_cast<std::int64_t>(message_.size())}}};
  }

  /// Adds in the order of the ranks: the same bits everywhere.
  Result<std::optional<Exchange>> resume(const GatherResult* gathered) override {
    HVD_TRY(check_rows(*gathered, message_.size(), "top-k"));
    const auto ranks = gathered->rows.size();
    const auto* words = reinterpret_cast<const std::uint32_t*>(gathered->data.get());
    double factor = allreduce_.prescale * allreduce_.postscale;
    if (allreduce_.op == ReduceOp::kAverage) factor /= static_cast<double>(ranks);
    const auto all = static_cast<float>(factor);
    std::fill(gradient_.begin(), gradient_.end(), 0.0F);
    for (std::size_t rank = 0; rank < ranks; ++rank, words += 2 * k_) {
      for (std::size_t j = 0; j < k_; ++j) {
        if (words[j] >= gradient_.size()) {
          return error(Code::kInternal, "top-k: rank {} sent index {} of {} elements", rank,
                       words[j], gradient_.size());
        }
        gradient_[words[j]] += all * std::bit_cast<float>(words[k_ + j]);
      }
    }
    return std::optional<Exchange>();
  }

  void save(ByteWriter& writer) const override { save_floats(residual_, writer); }
  Status load(ByteReader& reader) override { return load_floats(residual_, reader); }

 private:
  /// Fills the message: k indices in ascending order, then their values.
  void choose(std::span<const float> values) {
    Threshold threshold = kth_largest(values, k_);
    std::size_t chosen = 0;
    for (std::size_t i = 0; i < values.size() && chosen < k_; ++i) {
      const std::uint32_t bits = magnitude_bits(values[i]);
      if (bits < threshold.bits) continue;
      if (bits == threshold.bits) {
        if (threshold.equal == 0) continue;
        --threshold.equal;
      }
      message_[chosen] = static_cast<std::uint32_t>(i);
      message_[k_ + chosen] = std::bit_cast<std::uint32_t>(values[i]);
      ++chosen;
    }
  }

  std::vector<float> residual_;
  std::vector<std::uint32_t> message_;
  std::size_t k_;
  std::span<float> gradient_;
  Allreduce allreduce_;
};

}  // namespace

std::unique_ptr<Compressor> make_top_k(const Compression& compression, std::string_view /*name*/,
                                       const Tensor& gradient) {
  const std::size_t count = count_of(gradient);
  const auto k =
      static_cast<std::size_t>(std::ceil(compression.ratio * static_cast<double>(count)));
  if (2 * k >= count) return nullptr;  // an index is as long as a value
  return std::make_unique<TopK>(count, std::max<std::size_t>(k, 1));
}

}  // namespace hvd
