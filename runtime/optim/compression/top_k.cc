// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
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

/// With a momentum m, for a gradient g, a velocity u and a residual v, of this rank:
///
///     u = m u + g;  v = v + u;  send the largest of v;  u and v become 0 where they were sent
///
/// without one v = v + g. What is left out of a step stays in the caller's gradient until finish(),
/// so that a step which does not count needs no copy of what was kept before it.
class TopK : public Compressor {
 public:
  TopK(std::size_t count, std::size_t k, double momentum)
      : residual_(count),
        velocity_(momentum == 0 ? 0 : count),
        message_(2 * k),
        k_(k),
        momentum_(static_cast<float>(momentum)) {}

  Exchange begin(const Task& task) override {
    gradient_ = task.gradient;
    unit_ = static_cast<float>(task.unit);
    factor_ = task.allreduce.prescale * task.allreduce.postscale;
    if (task.allreduce.op == ReduceOp::kAverage) factor_ /= task.ranks;
    for (std::size_t i = 0; i < velocity_.size(); ++i) {
      gradient_[i] += momentum_ * velocity_[i] * unit_;
    }
    for (std::size_t i = 0; i < gradient_.size(); ++i) gradient_[i] += residual_[i] * unit_;
    choose(gradient_);
    return {"top", Allgather{},
            Tensor{.input = message_.data(),
                   .dtype = DataType::kUint32,
                   .shape = {static_cast<std::int64_t>(message_.size())}}};
  }

  Result<std::optional<Exchange>> resume(const GatherResult* gathered) override {
    HVD_TRY(check_rows(*gathered, message_.size(), "top-k"));
    const auto* words = reinterpret_cast<const std::uint32_t*>(gathered->data.get());
    gathered_ = {words, gathered->rows.size() * message_.size()};
    bound_ = 0;
    for (std::size_t rank = 0; rank < gathered->rows.size(); ++rank, words += 2 * k_) {
      std::uint32_t largest = 0;
      for (std::size_t j = 0; j < k_; ++j) {
        largest = std::max(largest, magnitude_bits(std::bit_cast<float>(words[k_ + j])));
        if (words[j] < gradient_.size()) continue;
        return error(Code::kInternal, "top-k: rank {} sent index {} of {} elements", rank, words[j],
                     gradient_.size());
      }
      bound_ += std::fabs(factor_) * std::bit_cast<float>(largest);
    }
    return std::optional<Exchange>();
  }

  /// One element that is not finite is among the largest of its rank.
  bool is_finite() const override { return bound_ < std::numeric_limits<float>::max(); }
  bool has_state() const override { return true; }

  /// Adds in the order of the ranks: the same bits everywhere.
  void finish(bool counts) override {
    if (!is_finite()) {
      std::fill(gradient_.begin(), gradient_.end(), std::numeric_limits<float>::quiet_NaN());
      return;
    }
    if (counts) keep();
    const auto factor = static_cast<float>(factor_);
    std::fill(gradient_.begin(), gradient_.end(), 0.0F);
    for (auto words = gathered_; !words.empty(); words = words.subspan(2 * k_)) {
      for (std::size_t j = 0; j < k_; ++j) {
        gradient_[words[j]] += factor * std::bit_cast<float>(words[k_ + j]);
      }
    }
  }

  void save(ByteWriter& writer) const override {
    save_floats(residual_, writer);
    if (!velocity_.empty()) save_floats(velocity_, writer);
  }
  Status load(ByteReader& reader) override {
    HVD_TRY(load_floats(residual_, reader));
    return velocity_.empty() ? Status::ok() : load_floats(velocity_, reader);
  }

 private:
  void keep() {
    for (std::size_t i = 0; i < velocity_.size(); ++i) {
      velocity_[i] = gradient_[i] / unit_ - residual_[i];
    }
    for (std::size_t i = 0; i < residual_.size(); ++i) residual_[i] = gradient_[i] / unit_;
    for (std::size_t j = 0; j < k_; ++j) {
      residual_[message_[j]] = 0;
      if (!velocity_.empty()) velocity_[message_[j]] = 0;
    }
  }

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
  std::vector<float> velocity_;  ///< Empty without momentum.
  std::vector<std::uint32_t> message_;
  std::size_t k_;
  float momentum_;
  std::span<float> gradient_;
  std::span<const std::uint32_t> gathered_;  ///< The messages of all ranks.
  float unit_ = 1;
  double factor_ = 1;  ///< Of the sum of the messages.
  double bound_ = 0;   ///< The result has no larger magnitude.
};

}  // namespace

std::unique_ptr<Compressor> make_top_k(const Compression& compression, std::string_view /*name*/,
                                       const Tensor& gradient) {
  const std::size_t count = count_of(gradient);
  const auto k =
      static_cast<std::size_t>(std::ceil(compression.ratio * static_cast<double>(count)));
  if (2 * k >= count) return make_whole(compression, gradient);  // an index is as long as a value
  return std::make_unique<TopK>(count, std::max<std::size_t>(k, 1), compression.momentum);
}

}  // namespace hvd
