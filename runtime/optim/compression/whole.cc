// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <vector>

#include "optim/compression/methods.h"

namespace hvd {

namespace {

/// v = momentum v + the reduced gradient, which is equal on all ranks; v is the result.
class Whole : public Compressor {
 public:
  Whole(std::size_t count, double momentum)
      : velocity_(count), momentum_(static_cast<float>(momentum)) {}

  Exchange begin(const Task& task) override {
    gradient_ = task.gradient;
    unit_ = static_cast<float>(task.unit * task.allreduce.prescale * task.allreduce.postscale);
    return {"whole", task.allreduce,
            Tensor{.input = gradient_.data(),
                   .output = gradient_.data(),
                   .shape = {static_cast<std::int64_t>(gradient_.size())}}};
  }
  Result<std::optional<Exchange>> resume(const GatherResult* /*gathered*/) override {
    return std::optional<Exchange>();
  }

  bool is_finite() const override {
    const double kept = static_cast<double>(momentum_) * unit_ * largest_magnitude(velocity_);
    return largest_magnitude(gradient_) + kept < std::numeric_limits<float>::max();
  }
  bool has_state() const override { return true; }

  void finish(bool counts) override {
    if (!is_finite()) {
      std::fill(gradient_.begin(), gradient_.end(), std::numeric_limits<float>::quiet_NaN());
      return;
    }
    for (std::size_t i = 0; i < velocity_.size(); ++i) {
      gradient_[i] += momentum_ * velocity_[i] * unit_;
      if (counts) velocity_[i] = gradient_[i] / unit_;
    }
  }

  void save(ByteWriter& writer) const override { save_floats(velocity_, writer); }
  Status load(ByteReader& reader) override { return load_floats(velocity_, reader); }

 private:
  std::vector<float> velocity_;
  float momentum_;
  std::span<float> gradient_;
  float unit_ = 1;  ///< Of the result.
};

}  // namespace

std::unique_ptr<Compressor> make_whole(const Compression& compression, const Tensor& gradient) {
  if (compression.momentum == 0) return nullptr;
  return std::make_unique<Whole>(count_of(gradient), compression.momentum);
}

}  // namespace hvd
