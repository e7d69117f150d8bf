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
/// They go into a double after some elements each, so that long rows lose no precision.
double dot(const float* a, const float* b, std::size_t count) {
  constexpr std::size_t kChunk = 256;
  double total = 0;
  for (std::size_t begin = 0; begin < count; begin += kChunk) {
    const std::size_t end = std::min(count, begin + kChunk);
    std::array<float, 8> sums{};
    std::size_t i = begin;
    for (; i + sums.size() <= end; i += sums.size()) {
      for (std::size_t lane = 0; lane < sums.size(); ++lane) {
        sums[lane] += a[i + lane] * b[i + lane];
      }
    }
    for (; i < end; ++i) sums[i % sums.size()] += a[i] * b[i];
    for (const float sum : sums) total += sum;
  }
  return total;
}

double dot(const double* a, const double* b, std::size_t count) {
  std::array<double, 4> sums{};
  for (std::size_t i = 0; i < count; ++i) sums[i % sums.size()] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

template <typename T>
void add_multiple(T* to, T factor, const T* from, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] += factor * from[i];
}

/// Makes the rows of `vectors` orthonormal (modified Gram-Schmidt, every row twice). A row that
/// depends on earlier ones becomes zero. In double: squares of float32 would leave their range.
void orthonormalise(std::span<float> vectors, std::size_t length) {
  std::vector<double> rows(vectors.begin(), vectors.end());
  for (std::size_t begin = 0; begin < rows.size(); begin += length) {
    double* row = &rows[begin];
    const double before = std::sqrt(dot(row, row, length));
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t other = 0; other < begin; other += length) {
        add_multiple(row, -dot(&rows[other], row, length), &rows[other], length);
      }
    }
    const double norm = std::sqrt(dot(row, row, length));
    // What is left of a dependent row is rounding errors: noise with a norm of one would follow.
    const bool depends = !(norm > 1e-6 * before);
    const double factor = depends ? 0.0 : 1 / norm;
    for (std::size_t i = 0; i < length; ++i) row[i] *= factor;
  }
  std::transform(rows.begin(), rows.end(), vectors.begin(),
                 [](double value) { return static_cast<float>(value); });
}

/// Gives a vector the norm 1; zeros stay.
void normalise(std::span<float> vector) {
  double squares = 0;
  for (const float value : vector) squares += static_cast<double>(value) * value;
  if (squares == 0) return;
  const double factor = 1 / std::sqrt(squares);
  for (float& value : vector) value = static_cast<float>(value * factor);
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
/// next step (one power iteration per step), its columns with a norm of 1: only their directions
/// matter, and P would grow with the square of the gradient. M stays in the caller's gradient until
/// finish().
class PowerSgd : public Compressor {
 public:
  PowerSgd(std::string_view name, const MatrixShape& shape)
      : shape_(shape),
        residual_(shape.rows * shape.columns),
        p_(shape.rank * shape.rows),
        q_(shape.rank * shape.columns),
        last_q_(q_.size()) {
    fill_by_name(name, last_q_);
    normalise_columns();
  }

  Exchange begin(const Task& task) override {
    gradient_ = task.gradient;
    allreduce_ = task.allreduce;
    unit_ = static_cast<float>(task.unit);
    stage_ = Stage::kP;
    for (std::size_t i = 0; i < gradient_.size(); ++i) gradient_[i] += residual_[i] * unit_;
    for (std::size_t k = 0; k < shape_.rank; ++k) {
      for (std::size_t row = 0; row < shape_.rows; ++row) {
        p_[k * shape_.rows + row] = static_cast<float>(
            dot(&gradient_[row * shape_.columns], &last_q_[k * shape_.columns], shape_.columns));
      }
    }
    return factor("p", p_, Allreduce{.op = ReduceOp::kAverage});
  }

  Result<std::optional<Exchange>> resume(const GatherResult* /*gathered*/) override {
    if (stage_ == Stage::kQ) {
      stage_ = is_in_range() ? Stage::kDone : Stage::kLost;
      return std::optional<Exchange>();
    }
    // The reduced P is the same everywhere, so that all ranks decide alike.
    if (!hvd::is_finite(p_)) {
      stage_ = Stage::kLost;
      return std::optional<Exchange>();
    }
    stage_ = Stage::kQ;
    orthonormalise(p_, shape_.rows);
    std::fill(q_.begin(), q_.end(), 0.0F);
    for (std::size_t k = 0; k < shape_.rank; ++k) {
      for (std::size_t row = 0; row < shape_.rows; ++row) {
        add_multiple(&q_[k * shape_.columns], p_[k * shape_.rows + row],
                     &gradient_[row * shape_.columns], shape_.columns);
      }
    }
    own_q_ = q_;
    return std::optional(factor("q", q_, allreduce_));
  }

  bool is_finite() const override { return stage_ == Stage::kDone; }
  bool has_state() const override { return true; }

  void finish(bool counts) override {
    if (!is_finite()) {
      std::fill(gradient_.begin(), gradient_.end(), std::numeric_limits<float>::quiet_NaN());
      return;
    }
    if (counts) keep();
    std::fill(gradient_.begin(), gradient_.end(), 0.0F);
    for (std::size_t row = 0; row < shape_.rows; ++row) {
      add_product(1, row, q_, &gradient_[row * shape_.columns]);
    }
  }

  void save(ByteWriter& writer) const override {
    save_floats(residual_, writer);
    save_floats(last_q_, writer);
  }
  Status load(ByteReader& reader) override {
    HVD_TRY(load_floats(residual_, reader));
    HVD_TRY(load_floats(last_q_, reader));
    normalise_columns();
    return Status::ok();
  }

 private:
  enum class Stage {
    kP,
    kQ,
    kDone,  ///< The factors of the result are there.
    kLost,  ///< They are not finite.
  };

  static Exchange factor(std::string_view stage, std::vector<float>& values,
                         const Allreduce& allreduce) {
    return {stage, allreduce,
            Tensor{.input = values.data(),
                   .output = values.data(),
                   .shape = {static_cast<std::int64_t>(values.size())}}};
  }

  /// True when no element of P Q^T can overflow.
  bool is_in_range() const {
    double bound = 0;
    for (std::size_t k = 0; k < shape_.rank; ++k) {
      const std::span p(&p_[k * shape_.rows], shape_.rows);
      const std::span q(&q_[k * shape_.columns], shape_.columns);
      bound += static_cast<double>(largest_magnitude(p)) * largest_magnitude(q);
    }
    return bound < std::numeric_limits<float>::max();
  }

  void keep() {
    for (std::size_t row = 0; row < shape_.rows; ++row) {
      float* const to = &residual_[row * shape_.columns];
      std::copy_n(&gradient_[row * shape_.columns], shape_.columns, to);
      add_product(-1, row, own_q_, to);
      for (std::size_t i = 0; i < shape_.columns; ++i) to[i] /= unit_;
    }
    // A column of zeros would stay zero for ever: keep the direction it had.
    for (std::size_t k = 0; k < shape_.rank; ++k) {
      const std::span column(&q_[k * shape_.columns], shape_.columns);
      if (largest_magnitude(column) == 0) continue;
      std::copy(column.begin(), column.end(), &last_q_[k * shape_.columns]);
    }
    normalise_columns();
  }

  void normalise_columns() {
    for (std::size_t k = 0; k < shape_.rank; ++k) {
      normalise(std::span(last_q_).subspan(k * shape_.columns, shape_.columns));
    }
  }

  /// to += sign * a row of P Q^T
  void add_product(float sign, std::size_t row, std::span<const float> q, float* to) const {
    for (std::size_t k = 0; k < shape_.rank; ++k) {
      add_multiple(to, sign * p_[k * shape_.rows + row], &q[k * shape_.columns], shape_.columns);
    }
  }

  MatrixShape shape_;
  std::vector<float> residual_;
  std::vector<float> p_;       ///< [rank][rows]
  std::vector<float> q_;       ///< [rank][columns]
  std::vector<float> own_q_;   ///< That of this rank.
  std::vector<float> last_q_;  ///< [rank][columns] of the last step that counted.
  std::span<float> gradient_;
  Allreduce allreduce_;
  float unit_ = 1;
  Stage stage_ = Stage::kP;
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
