// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "engine/request/request.h"

namespace hvd {

/// What travels instead of a gradient. The numbers are those of `hvd_compression_method`
/// in hvd.h and stand in saved states.
enum class CompressionMethod : std::uint8_t {
  kNone = 0,
  kFloat16 = 1,   ///< Not a compressor: the allreduce's own wire type.
  kBfloat16 = 2,  ///< The same.
  kFloat8E4m3 = 3,
  kFloat8E5m2 = 4,
  kTopK = 5,
  kPowerSgd = 6,
};
std::string_view name_of(CompressionMethod method);

/// A method and its parameters. Chosen per gradient, alike on all ranks.
struct Compression {
  CompressionMethod method = CompressionMethod::kNone;
  double ratio = 0.01;             ///< Top-k: the share of the elements that travels.
  int rank = 2;                    ///< PowerSGD: columns of the two factors.
  std::uint64_t smallest = 1'024;  ///< Gradients of fewer elements travel whole.
  double momentum = 0;             ///< Top-k: of the gradients, before the choice; 0: none.
  bool operator==(const Compression&) const = default;
};

/// What the elements of an allreduce travel as with this method.
Wire wire_of(CompressionMethod method);
/// True where a sum or an average is put together from parts: other reductions cannot be.
bool is_linear(CompressionMethod method);

/// Ok, or kInvalidArgument: a parameter out of its range.
Status check_compression(const Compression& compression);

/// One collective of a method, on one tensor in memory of the compressor.
struct Exchange {
  std::string_view stage;  ///< Distinguishes the exchanges of a step; ends the request's name.
  Operation operation;
  Tensor tensor;
};

/// Reduces one gradient over all ranks by other means than an allreduce of its elements.
///
/// Each step is begin(), then resume() after each exchange until it gives no further one, then
/// finish(): then the gradient holds the result, which is bitwise equal on all ranks. The stages of
/// all gradients of a step are on their way together. What a method left out of the gradient of
/// this rank is added to its next one where the method needs that (error feedback); it is this
/// rank's own state, in units of the true gradients, and changes in finish() alone: a step that
/// ends before it has not happened. Makes no call to an engine. One thread at a time.
class Compressor {
 public:
  virtual ~Compressor() = default;

  /// A gradient and the allreduce to stand in for: an average or a sum over so many ranks.
  struct Task {
    std::span<float> gradient;  ///< Borrowed, and not the caller's to read, until finish().
    Allreduce allreduce{ReduceOp::kAverage};
    int ranks = 1;
    double unit = 1;  ///< Elements are those of the true gradient times this: the loss scale.
  };
  /// The exchange's memory is the compressor's, alive as long as that.
  virtual Exchange begin(const Task& task) = 0;

  /// The last exchange is over; `gathered` is what it gathered, null for an allreduce, and lives
  /// until finish().
  virtual Result<std::optional<Exchange>> resume(const GatherResult* gathered) = 0;

  /// All exchanges are over: false where the result is not finite, or so large that it might not
  /// be. Alike on all ranks.
  virtual bool is_finite() const = 0;

  /// True where something is kept between steps.
  virtual bool has_state() const { return false; }

  /// Writes the result into the gradient: NaN alone where is_finite() is false. With `counts` false
  /// the ranks discard the step, and what is kept stays as it was before it.
  virtual void finish(bool counts) = 0;

  /// What has to live on in a checkpoint of this rank.
  virtual void save(ByteWriter& /*writer*/) const {}
  /// What save() wrote for a gradient of this shape.
  virtual Status load(ByteReader& /*reader*/) { return Status::ok(); }
};

/// The compressor of a gradient, or null where it travels better whole: no method, too few
/// elements, or a "compressed" form that is no smaller; but never null where there is a momentum.
/// `gradient` gives name, type and shape.
/// kUnsupported: a type that the method does not take, or more elements than it can number.
Result<std::unique_ptr<Compressor>> make_compressor(const Compression& compression,
                                                    std::string_view name, const Tensor& gradient);

/// True when no element is infinite or NaN.
bool is_finite(std::span<const float> values);
/// The largest magnitude; NaN where there is one.
float largest_magnitude(std::span<const float> values);

}  // namespace hvd
