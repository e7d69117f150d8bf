// SPDX-License-Identifier: Apache-2.0
#include "collective/pack_plan.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/rounding.h"
#include "collective/identity.h"

namespace hvd {
namespace {

using kernels::Direction;
using kernels::FillArguments;
using kernels::IntegerScaleArguments;
using kernels::PackArguments;
using kernels::TensorList;

/// How a kernel counts.
struct Counting {
  std::size_t units = 1;         ///< Of the kernel, in an element of the segment.
  std::size_t tensor_bytes = 1;  ///< Of a unit in the tensor.
  std::size_t bucket_bytes = 1;  ///< And in the bucket.

  std::size_t tile() const {
    const std::size_t group = kernels::kGroupBytes / std::max(tensor_bytes, bucket_bytes);
    return std::size_t{kernels::kThreads} * kernels::kGroupsPerThread * group;
  }
};

void set_bucket(PackArguments& arguments, void* bucket) { arguments.bucket = bucket; }
void set_bucket(IntegerScaleArguments& /*arguments*/, void* /*bucket*/) {}
void set_bucket(FillArguments& /*arguments*/, void* /*bucket*/) {}

/// Collects pieces of tensors into launches.
template <typename Arguments>
class Launches {
 public:
  Launches(std::string_view kernel, const Arguments& arguments, void* bucket, Counting counting)
      : bucket_(static_cast<std::byte*>(bucket)), counting_(counting) {
    empty_ = {.kernel = kernel, .shape = {0, kernels::kThreads}, .arguments = arguments};
    empty_.arguments.list.size = 0;
  }

  void add(const PackSegment& segment) {
    auto* const tensor = static_cast<std::byte*>(segment.tensor);
    const std::size_t count = segment.count * counting_.units;
    for (std::size_t begin = 0; begin < count; begin += kernels::kMaxPiece) {
      add_piece(tensor + begin * counting_.tensor_bytes,
                segment.offset + begin * counting_.bucket_bytes,
                std::min<std::size_t>(kernels::kMaxPiece, count - begin));
    }
  }
  std::vector<KernelLaunch<Arguments>> take() { return std::move(launches_); }

 private:
  void add_piece(void* tensor, std::size_t offset, std::size_t count) {
    const std::size_t window = bucket_ == nullptr ? 0 : offset / kernels::kOffsetWindow;
    const bool full =
        launches_.empty() || launches_.back().arguments.list.size == kernels::kMaxTensors;
    if (full || window != window_) {
      window_ = window;
      launches_.push_back(empty_);
      if (bucket_ != nullptr) {
        set_bucket(launches_.back().arguments, bucket_ + window * kernels::kOffsetWindow);
      }
    }
    KernelLaunch<Arguments>& launch = launches_.back();
    TensorList& list = launch.arguments.list;
    list.tensors[list.size] = tensor;
    list.offsets[list.size] = static_cast<std::uint32_t>(offset % kernels::kOffsetWindow);
    list.counts[list.size] = static_cast<std::uint32_t>(count);
    list.first_blocks[list.size] = launch.shape.blocks;
    ++list.size;
    launch.shape.blocks += static_cast<unsigned>(divide_up(count, counting_.tile()));
  }

  std::byte* bucket_;
  Counting counting_;
  KernelLaunch<Arguments> empty_{};
  std::size_t window_ = 0;
  std::vector<KernelLaunch<Arguments>> launches_;
};

template <typename Arguments>
std::vector<KernelLaunch<Arguments>> plan(std::string_view kernel, const Arguments& arguments,
                                          std::span<const PackSegment> segments, void* bucket,
                                          const Counting& counting) {
  Launches<Arguments> launches(kernel, arguments, bucket, counting);
  for (const PackSegment& segment : segments) launches.add(segment);
  return launches.take();
}

/// The kernel that casts between two types of floats; empty: none.
std::string_view cast_kernel(DataType from, DataType to) {
  struct Cast {
    DataType from;
    DataType to;
    std::string_view kernel;
  };
  using enum DataType;
  static constexpr Cast kCasts[] = {
      {kFloat32, kFloat32, "hvd_float32_to_float32"},
      {kFloat64, kFloat64, "hvd_float64_to_float64"},
      {kFloat16, kFloat16, "hvd_float16_to_float16"},
      {kBfloat16, kBfloat16, "hvd_bfloat16_to_bfloat16"},
      {kFloat8E4m3, kFloat8E4m3, "hvd_float8_e4m3fn_to_float8_e4m3fn"},
      {kFloat8E5m2, kFloat8E5m2, "hvd_float8_e5m2_to_float8_e5m2"},
      {kFloat32, kFloat16, "hvd_float32_to_float16"},
      {kFloat32, kBfloat16, "hvd_float32_to_bfloat16"},
      {kFloat64, kFloat16, "hvd_float64_to_float16"},
      {kFloat64, kBfloat16, "hvd_float64_to_bfloat16"},
      {kFloat16, kFloat32, "hvd_float16_to_float32"},
      {kBfloat16, kFloat32, "hvd_bfloat16_to_float32"},
      {kFloat16, kFloat64, "hvd_float16_to_float64"},
      {kBfloat16, kFloat64, "hvd_bfloat16_to_float64"},
  };
  for (const Cast& cast : kCasts) {
    if (cast.from == from && cast.to == to) return cast.kernel;
  }
  return {};
}

/// Complex numbers are scaled part by part.
DataType part_of(DataType dtype) {
  if (dtype == DataType::kComplex64) return DataType::kFloat32;
  return dtype == DataType::kComplex128 ? DataType::kFloat64 : dtype;
}

bool is_copy(const PackFormat& format) {
  return format.tensor == format.bucket && format.scale == 1.0;
}

std::vector<PackLaunch> plan_between(std::span<const PackSegment> segments, void* bucket,
                                     const PackFormat& format, Direction direction) {
  const PackArguments arguments{
      .bucket = bucket, .scale = format.scale, .direction = direction, .list = {}};
  if (is_copy(format)) {
    return plan("hvd_copy", arguments, segments, bucket, {.units = size_of(format.tensor)});
  }
  const DataType tensor = part_of(format.tensor);
  const DataType in_bucket = part_of(format.bucket);
  const bool from_bucket = direction == Direction::kUnpack;
  const std::string_view kernel =
      from_bucket ? cast_kernel(in_bucket, tensor) : cast_kernel(tensor, in_bucket);
  HVD_CHECK(!kernel.empty());
  return plan(kernel, arguments, segments, bucket,
              {.units = size_of(format.tensor) / size_of(tensor),
               .tensor_bytes = size_of(tensor),
               .bucket_bytes = size_of(in_bucket)});
}

std::string_view integer_kernel(DataType dtype) {
  switch (dtype) {
    case DataType::kUint8:
      return "hvd_scale_uint8";
    case DataType::kInt8:
      return "hvd_scale_int8";
    case DataType::kUint16:
      return "hvd_scale_uint16";
    case DataType::kInt16:
      return "hvd_scale_int16";
    case DataType::kUint32:
      return "hvd_scale_uint32";
    case DataType::kInt32:
      return "hvd_scale_int32";
    case DataType::kUint64:
      return "hvd_scale_uint64";
    case DataType::kInt64:
      return "hvd_scale_int64";
    default:
      return {};
  }
}

}  // namespace

bool can_pack(const PackFormat& format) {
  if (is_copy(format)) return true;
  if (size_of(format.tensor) / size_of(part_of(format.tensor)) !=
      size_of(format.bucket) / size_of(part_of(format.bucket))) {
    return false;
  }
  return !cast_kernel(part_of(format.tensor), part_of(format.bucket)).empty();
}

std::vector<PackLaunch> plan_pack(std::span<const PackSegment> segments, void* bucket,
                                  const PackFormat& format) {
  return plan_between(segments, bucket, format, Direction::kPack);
}

std::vector<PackLaunch> plan_unpack(std::span<const PackSegment> segments, void* bucket,
                                    const PackFormat& format) {
  return plan_between(segments, bucket, format, Direction::kUnpack);
}

std::vector<PackLaunch> plan_scale(std::span<const PackSegment> segments, DataType dtype,
                                   double scale) {
  if (scale == 1.0) return {};
  const PackFormat format{.tensor = dtype, .bucket = dtype, .scale = scale};
  return plan_between(segments, nullptr, format, Direction::kInPlace);
}

std::vector<KernelLaunch<IntegerScaleArguments>> plan_integer_scale(
    std::span<const PackSegment> segments, DataType dtype, double scale, int divisor) {
  if (scale == 1.0 && divisor == 1) return {};
  const std::string_view kernel = integer_kernel(dtype);
  HVD_CHECK(!kernel.empty());
  return plan(kernel, IntegerScaleArguments{.scale = scale, .divisor = divisor, .list = {}},
              segments, nullptr, {.tensor_bytes = size_of(dtype), .bucket_bytes = size_of(dtype)});
}

std::vector<KernelLaunch<FillArguments>> plan_fill_identity(std::span<const PackSegment> segments,
                                                            DataType dtype, ReduceOp op) {
  FillArguments arguments{};
  fill_identity(op, dtype, arguments.pattern, sizeof(arguments.pattern) / size_of(dtype));
  return plan("hvd_fill", arguments, segments, nullptr, {.units = size_of(dtype)});
}

}  // namespace hvd
