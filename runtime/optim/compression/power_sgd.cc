// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "optim/compression/methods.h"

namespace hvd {

namespace {

/// Several partial sums, always the same ones: faster than one, and the same bits on every rank.
double dot(const float* a, const float* b, std::size_t count) {
  std::array<float, 8> sums{};
  std::size_t i = 0;
  for (; i + sums.size() <= count; i += sums.size()) {
    for (std::size_t lane = 0; lane < sums.size(); ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (; i < count; ++i) sums[i % sums.size()] += a[i] * b[i];
  double total = 0;
  for (const float sum : sums) total += sum;
  return total;
}

void add_multiple(float* to, float factor, const float* from, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] += factor * from[i];
}

/// Makes the rows of `vectors` orthonormal (modified Gram-Schmidt, every row twice because one
/// pass loses orthogonality in float32). A row that depends on earlier ones becomes zero.
void orthonormalise(std::span<float> vectors, std::size_t length) {
  for (std::size_t begin = 0; begin < vectors.size(); begin += length) {
    float* row = &vectors[begin];
    const double before = std::sqrt(dot(row, row, length));
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t other = 0; other < begin; other += length) {
        const double overlap = dot(&vectors[other], row, length);
        add_multiple(row, static_cast<float>(-overlap), &vectors[other], length);
      }
    }
    const double norm = std::sqrt(dot(row, row, length));
    // What is left of a dependent row is rounding errors: noise with a norm of one would follow.
    const bool depends = !(norm > 1e-6 * before);
    const float factor = depends ? 0.0F : static_cast<float>(1 / norm);
    for (std::size_t i = 0; i < length; ++i) row[i] *= factor;
  }
}

/// Numbers in -1..1 that depend on the name alone (splitmix64 from an FNV-1a hash).
void fill_by_name(std::string_view name, std::span<float> values) {
  std::uint64_t state = 14695981039346656037U;
  for (const char letter : name) {
    state = (state ^ static_cast<unsigned char>(letter)) * 1099511628211U;
  }
  for (float& value : values) {
    state += 0x9e3779b97f4a7c15U;
    std::uint64_t bits = (state ^ state >> 30) * 0xbf58476d1ce4e5b9U;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111ebU;
    bits ^= bits >> 31;
    value = static_cast<float>(static_cast<double>(bits >> 40) / 8388608.0 - 1.0);
  }
}

/// The shape of a gradient as a matrix, and of its factors.
struct MatrixShape {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t rank = 0;
};

/// Algorithms 1 and 2 of the paper, for M = gradient + residual, a matrix of rows x columns:
///
///     P = average of M Q;  orthonormalise P;  Q = M^T P;  residual = M - P Q^T;
///     Q = average of Q;  gradient = P Q^T
///
/// P and Q are stored transposed, by columns. The residual uses the rank's own Q, so it is what
/// the subspace P does not hold of M, and averages are of what the ranks really kept. Q starts the
/// next step (one power iteration per step).
class PowerSgd : public Compressor {
 public:
  PowerSgd(std::string_view name, const MatrixShape& shape)
      : shape_(shape),
        residual_(shape.rows * shape.columns),
        p_(shape.rank * shape.rows),
        q_(shape.rank * shape.columns),
        last_q_(q_.size()) {
    fill_by_name(name, last_q_);
  }

  Exchange begin(std::span<float> gradient, const Allreduce& allreduce, int /*ranks*/) override {
    gradient_ = gradient;
    allreduce_ = allreduce;
    has_p_ = false;
    for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] += residual_[i];
    for (std::size_t k = 0; k < shape_.rank; ++k) {
      for (std::size_t row = 0; row < shape_.rows; ++row) {
        p_[k * shape_.rows + row] = static_cast<float>(
            dot(&gradient[row * shape_.columns], &last_q_[k * shape_.columns], shape_.columns));
      }
    }
    return factor("p", p_, Allreduce{.op = ReduceOp::kAverage});
  }

  Result<std::optional<Exchange>> resume(const GatherResult* /*gathered*/) override {
    if (has_p_) {
      finish();
      return std::optional<Exchange>();
    }
    has_p_ = true;
    // The reduced P is the same everywhere, so that all ranks decide alike. A lost step leaves
    // residual and Q as they were.
    if (!is_finite(p_)) {
      std::fill(gradient_.begin(), gradient_.end(), std::numeric_limits<float>::quiet_NaN());
      return std::optional<Exchange>();
    }
    orthonormalise(p_, shape_.rows);
    std::fill(q_.begin(), q_.end(), 0.0F);
    for (std::size_t k = 0; k < shape_.rank; ++k) {
      for (std::size_t row = 0; row < shape_.rows; ++row) {
        add_multiple(&q_[k * shape_.columns], p_[k * shape_.rows + row],
                     &gradient_[row * shape_.columns], shape_.columns);
      }
    }
    std::copy(gradient_.begin(), gradient_.end(), residual_.begin());
    add_product(-1, residual_);
    return std::optional(factor("q", q_, allreduce_));
  }

  void save(ByteWriter& writer) const override {
    save_floats(residual_, writer);
    save_floats(last_q_, writer);
  }
  Status load(ByteReader& reader) override {
    HVD_TRY(load_floats(residual_, reader));
    return load_floats(last_q_, reader);
  }

 private:
  static Exchange factor(std::string_view stage, std::vector<float>& values,
                         const Allreduce& allreduce) {
    return {stage, allreduce,
            Tensor{.input = values.data(),
                   .output = values.data(),
                   .shape = {static_cast<std::int64_t>(values.size())}}};
  }

  void finish() {
    std::fill(gradient_.begin(), gradient_.end(), 0.0F);
    add_product(1, gradient_);
    // A column of zeros would stay zero for ever: keep the direction it had.
    for (std::size_t k = 0; k < shape_.rank; ++k) {
      const std::span column(&q_[k * shape_.columns], shape_.columns);
      const bool is_zero =
          std::all_of(column.begin(), column.end(), [](float v) { return v == 0; });
      if (is_zero || !is_finite(column)) continue;
      std::copy(column.begin(), column.end(), &last_q_[k * shape_.columns]);
    }
  }

  /// to += sign * P Q^T
  void add_product(float sign, std::span<float> to) const {
    for (std::size_t row = 0; row < shape_.rows; ++row) {
      for (std::size_t k = 0; k < shape_.rank; ++k) {
        add_multiple(&to[row * shape_.columns], sign * p_[k * shape_.rows + row],
                     &q_[k * shape_.columns], shape_.columns);
      }
    }
  }

  MatrixShape shape_;
  std::vector<float> residual_;
  std::vector<float> p_;       ///< [rank][rows]
  std::vector<float> q_;       ///< [rank][columns]
  std::vector<float> last_q_;  ///< [rank][columns] of the last step.
  std::span<float> gradient_;
  Allreduce allreduce_;
  bool has_p_ = false;
};

}  // namespace

std::unique_ptr<Compressor> make_power_sgd(const Compression& compression, std::string_view name,
                                           const Tensor& gradient) {
  if (gradient.shape.size() < 2) return nullptr;
  MatrixShape shape;
  shape.rows = static_cast<std::size_t>(gradient.shape.front());
  shape.columns = count_of(gradient) / shape.rows;
  shape.rank = std::min({static_cast<std::size_t>(compression.rank), shape.rows, shape.columns});
  if (shape.rank * (shape.rows + shape.columns) >= shape.rows * shape.columns) return nullptr;
  return std::make_unique<PowerSgd>(name, shape);
}

}  // namespace hvd
