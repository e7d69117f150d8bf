// SPDX-License-Identifier: Apache-2.0
#include "optim/compression/compressor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "optim/compression/methods.h"

namespace hvd {

namespace {

struct Method {
  CompressionMethod method;
  std::string_view name;
  CompressorMaker make;
};

// A new method: one file, one line here, one in methods.h, its number in the two headers.
constexpr Method kMethods[] = {
    {CompressionMethod::kNone, "none", nullptr},
    {CompressionMethod::kFloat16, "fp16", nullptr},
    {CompressionMethod::kBfloat16, "bf16", nullptr},
    {CompressionMethod::kFloat8E4m3, "fp8-e4m3", make_float8_e4m3},
    {CompressionMethod::kFloat8E5m2, "fp8-e5m2", make_float8_e5m2},
    {CompressionMethod::kTopK, "top-k", make_top_k},
    {CompressionMethod::kPowerSgd, "power-sgd", make_power_sgd},
};

const Method* find_method(CompressionMethod method) {
  const auto* const found =
      std::find_if(std::begin(kMethods), std::end(kMethods),
                   [method](const Method& one) { return one.method == method; });
  return found == std::end(kMethods) ? nullptr : found;
}

constexpr std::uint32_t kMagnitude = 0x7fffffffU;

}  // namespace

std::string_view name_of(CompressionMethod method) {
  const Method* const found = find_method(method);
  return found == nullptr ? "unknown" : found->name;
}

Wire wire_of(CompressionMethod method) {
  if (method == CompressionMethod::kFloat16) return Wire::kFloat16;
  return method == CompressionMethod::kBfloat16 ? Wire::kBfloat16 : Wire::kSame;
}

bool is_linear(CompressionMethod method) {
  const Method* const found = find_method(method);
  return found != nullptr && found->make != nullptr;
}

Status check_compression(const Compression& compression) {
  if (find_method(compression.method) == nullptr) {
    return error(Code::kInvalidArgument, "compression method {} is not one of hvd_compression",
                 static_cast<int>(compression.method));
  }
  if (compression.method == CompressionMethod::kTopK &&
      !(compression.ratio > 0 && compression.ratio <= 1)) {
    return error(Code::kInvalidArgument,
                 "compression top-k: the ratio is {}, give a share of the elements above 0, such "
                 "as 0.01",
                 compression.ratio);
  }
  if (!(compression.momentum >= 0 && compression.momentum < 1)) {
    return error(Code::kInvalidArgument,
                 "compression {}: the momentum is {}, must be below 1; 0 is none, 0.9 is usual",
                 name_of(compression.method), compression.momentum);
  }
  if (compression.momentum != 0 && compression.method != CompressionMethod::kTopK) {
    return error(Code::kInvalidArgument,
                 "compression {}: the momentum is {}, which top-k alone has; give the optimizer "
                 "that momentum",
                 name_of(compression.method), compression.momentum);
  }
  if (compression.method == CompressionMethod::kPowerSgd &&
      (compression.rank < 1 || compression.rank > 64)) {
    return error(Code::kInvalidArgument,
                 "compression power-sgd: the rank is {}, must be 1 to 64; 2 or 4 are usual",
                 compression.rank);
  }
  return Status::ok();
}

Result<std::unique_ptr<Compressor>> make_compressor(const Compression& compression,
                                                    std::string_view name, const Tensor& gradient) {
  HVD_TRY(check_compression(compression));
  const Method* const method = find_method(compression.method);
  const std::size_t count = count_of(gradient);
  const bool takes_double = wire_of(compression.method) != Wire::kSame;
  const bool fits = gradient.dtype == DataType::kFloat32 ||
                    (gradient.dtype == DataType::kFloat64 && takes_double);
  if (compression.method != CompressionMethod::kNone && !fits) {
    return error(Code::kUnsupported,
                 "gradient '{}': compression {} is for float32{}, this is {}; choose none for it",
                 name, method->name, takes_double ? " and float64" : "", name_of(gradient.dtype));
  }
  if (method->make == nullptr || count == 0) return std::unique_ptr<Compressor>();
  if (count < compression.smallest) return make_whole(compression, gradient);
  if (count > std::numeric_limits<std::uint32_t>::max()) {
    return error(Code::kUnsupported,
                 "gradient '{}': compression {} numbers elements in 32 bits, this has {}; choose "
                 "none for it, or split it",
                 name, method->name, count);
  }
  return method->make(compression, name, gradient);
}

bool is_finite(std::span<const float> values) { return std::isfinite(largest_magnitude(values)); }

/// As bits, floats order like integers, and NaN above all.
float largest_magnitude(std::span<const float> values) {
  std::uint32_t largest = 0;
  for (const float value : values) {
    largest = std::max(largest, std::bit_cast<std::uint32_t>(value) & kMagnitude);
  }
  return std::bit_cast<float>(largest);
}

Status check_rows(const GatherResult& gathered, std::size_t rows, std::string_view what) {
  for (std::size_t rank = 0; rank < gathered.rows.size(); ++rank) {
    if (static_cast<std::size_t>(gathered.rows[rank]) == rows) continue;
    return error(Code::kMismatch,
                 "compression {}: rank {} of the process set sent {} elements, {} were due; use "
                 "gradients of one shape and one method on all ranks",
                 what, rank, gathered.rows[rank], rows);
  }
  return Status::ok();
}

std::size_t count_of(const Tensor& tensor) {
  std::size_t count = 1;
  for (const std::int64_t extent : tensor.shape) count *= static_cast<std::size_t>(extent);
  return count;
}

void save_floats(std::span<const float> values, ByteWriter& writer) {
  writer.put(static_cast<std::uint64_t>(values.size()));
  writer.put_raw(std::as_bytes(values));
}

Status load_floats(std::span<float> values, ByteReader& reader) {
  HVD_TRY_ASSIGN(const auto count, reader.get<std::uint64_t>());
  if (count != values.size()) {
    return error(Code::kInvalidArgument, "the saved state has {} elements, the gradient {}", count,
                 values.size());
  }
  HVD_TRY_ASSIGN(const auto raw, reader.get_raw(values.size_bytes()));
  if (!raw.empty()) std::memcpy(values.data(), raw.data(), raw.size());
  return Status::ok();
}

}  // namespace hvd
