// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "engine/request.h"

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
/// Each step is begin(), then resume() after each exchange until it gives no further one: then the
/// gradient holds the result, which is bitwise equal on all ranks. The stages of all gradients of
/// a step are on their way together. What a method left out of the gradient of this rank is added
/// to its next one where the method needs that (error feedback); it is this rank's own state.
/// Makes no call to an engine. One thread at a time.
class Compressor {
 public:
  virtual ~Compressor() = default;

  /// Takes a gradient, which stays borrowed until the last resume(), and the allreduce to stand in
  /// for: an average or a sum over so many ranks. The exchange's memory is the compressor's, alive
  /// as long as that.
  virtual Exchange begin(std::span<float> gradient, const Allreduce& allreduce, int ranks) = 0;

  /// The last exchange is over; `gathered` is what it gathered, null for an allreduce.
  virtual Result<std::optional<Exchange>> resume(const GatherResult* gathered) = 0;

  /// What has to live on in a checkpoint of this rank.
  virtual void save(ByteWriter& /*writer*/) const {}
  /// What save() wrote for a gradient of this shape.
  virtual Status load(ByteReader& /*reader*/) { return Status::ok(); }
};

/// The compressor of a gradient, or null where it travels better whole: no method, too few
/// elements, or a "compressed" form that is no smaller. `gradient` gives name, type and shape.
/// kUnsupported: a type that the method does not take, or more elements than it can number.
Result<std::unique_ptr<Compressor>> make_compressor(const Compression& compression,
                                                    std::string_view name, const Tensor& gradient);

/// True when no element is infinite or NaN.
bool is_finite(std::span<const float> values);

}  // namespace hvd
