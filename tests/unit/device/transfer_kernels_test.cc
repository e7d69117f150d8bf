// SPDX-License-Identifier: Apache-2.0
// Every kernel that moves or changes tensors, against the code of the host that does the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "collective/float8_bits.h"
#include "collective/half_bits.h"
#include "collective/identity.h"
#include "collective/pack_plan.h"
#include "collective/reduce.h"
#include "collective/wire_cast.h"
#include "kernel_arena.h"

namespace hvd {
namespace {

constexpr std::size_t kCounts[] = {0,   1,    2,    3,    5,    7,     8,     9,
                                   15,  16,   17,   31,   63,   64,    65,    255,
                                   256, 1000, 4095, 4096, 4097, 16384, 16385, 40007};
constexpr std::size_t kMisalignments[] = {0, 1, 2, 3, 4, 8, 13};  // elements

/// Tensors and a bucket, of all counts at all misalignments of both sides.
struct Layout {
  std::vector<PackSegment> segments;        ///< With addresses of the GPU.
  std::vector<std::size_t> tensor_offsets;  ///< In the arena of the tensors.
  std::size_t tensor_bytes = 0;
  std::size_t bucket_bytes = 0;

  Layout(std::size_t tensor_element, std::size_t bucket_element) {
    for (const std::size_t tensor_shift : kMisalignments) {
      for (const std::size_t bucket_shift : {0, 1, 6}) {
        for (const std::size_t count : kCounts) {
          tensor_offsets.push_back(next_slot(tensor_bytes) + tensor_shift * tensor_element);
          const std::size_t offset = next_slot(bucket_bytes) + bucket_shift * bucket_element;
          segments.push_back({nullptr, offset, count});
          tensor_bytes = tensor_offsets.back() + count * tensor_element + 1;
          bucket_bytes = offset + count * bucket_element + 1;
        }
      }
    }
  }
  void place(const KernelArena& tensors) {
    for (std::size_t i = 0; i < segments.size(); ++i) {
      segments[i].tensor = tensors.at(tensor_offsets[i]);
    }
  }
};

template <typename Launches>
void run(const Launches& launches) {
  const Status status = enqueue(kernel_gpu(), launches, nullptr);
  ASSERT_TRUE(status.is_ok()) << status.message();
}

bool is_nan(DataType dtype, const std::byte* element) {
  std::uint16_t half = 0;
  float single = 0;
  double wide = 0;
  switch (dtype) {
    case DataType::kFloat16:
      std::memcpy(&half, element, sizeof(half));
      return std::isnan(float16_to_float(half));
    case DataType::kBfloat16:
      std::memcpy(&half, element, sizeof(half));
      return std::isnan(bfloat16_to_float(half));
    case DataType::kFloat32:
    case DataType::kComplex64:
      std::memcpy(&single, element, sizeof(single));
      return std::isnan(single);
    case DataType::kFloat64:
    case DataType::kComplex128:
      std::memcpy(&wide, element, sizeof(wide));
      return std::isnan(wide);
    case DataType::kFloat8E4m3:
      return std::isnan(float8_to_float<Float8E4m3>(static_cast<std::uint8_t>(*element)));
    case DataType::kFloat8E5m2:
      return std::isnan(float8_to_float<Float8E5m2>(static_cast<std::uint8_t>(*element)));
    default:
      return false;
  }
}

std::size_t number_bytes(DataType dtype) {
  const bool complex = dtype == DataType::kComplex64 || dtype == DataType::kComplex128;
  return size_of(dtype) / (complex ? 2 : 1);
}

/// Equal bit by bit, except for the payload of a NaN. Then the arena is what it should be, so that
/// what lies between tensors is compared, too.
void expect_elements(KernelArena& arena, std::vector<std::byte>& contents, std::size_t offset,
                     DataType dtype, std::size_t count, const std::string& what) {
  const std::size_t bytes = number_bytes(dtype);
  std::byte* const all = arena.expected(offset);
  if (std::memcmp(contents.data() + offset, all, count * size_of(dtype)) == 0) return;
  for (std::size_t at = offset; at < offset + count * size_of(dtype); at += bytes) {
    std::byte* const got = contents.data() + at;
    if (std::memcmp(got, arena.expected(at), bytes) == 0) continue;
    ASSERT_TRUE(is_nan(dtype, got) && is_nan(dtype, arena.expected(at)))
        << what << ": element " << (at - offset) / bytes << " of " << count << " at " << offset;
    std::memcpy(got, arena.expected(at), bytes);
  }
}

/// The kernels' cast by the host's: in float64 where either side is, else in float32.
void cast_on_host(std::byte* to, DataType to_type, const std::byte* from, DataType from_type,
                  std::size_t count, double scale) {
  const auto read = [&](std::size_t i) -> double {
    std::uint16_t half = 0;
    float single = 0;
    double wide = 0;
    const std::byte* const at = from + i * size_of(from_type);
    if (from_type == DataType::kFloat64) return std::memcpy(&wide, at, 8), wide;
    if (from_type == DataType::kFloat32) return std::memcpy(&single, at, 4), single;
    const auto code = static_cast<std::uint8_t>(*at);
    if (from_type == DataType::kFloat8E4m3) return float8_to_float<Float8E4m3>(code);
    if (from_type == DataType::kFloat8E5m2) return float8_to_float<Float8E5m2>(code);
    std::memcpy(&half, at, 2);
    return from_type == DataType::kFloat16 ? float16_to_float(half) : bfloat16_to_float(half);
  };
  const bool wide = from_type == DataType::kFloat64 || to_type == DataType::kFloat64;
  for (std::size_t i = 0; i < count; ++i) {
    const double value =
        wide ? read(i) * scale : static_cast<float>(read(i)) * static_cast<float>(scale);
    std::byte* const at = to + i * size_of(to_type);
    const auto single = static_cast<float>(value);
    if (to_type == DataType::kFloat64) {
      std::memcpy(at, &value, 8);
    } else if (to_type == DataType::kFloat32) {
      std::memcpy(at, &single, 4);
    } else if (to_type == DataType::kFloat8E4m3) {
      *at = std::byte{float_to_float8<Float8E4m3>(single)};
    } else if (to_type == DataType::kFloat8E5m2) {
      *at = std::byte{float_to_float8<Float8E5m2>(single)};
    } else {
      const std::uint16_t half =
          to_type == DataType::kFloat16 ? float_to_float16(single) : float_to_bfloat16(single);
      std::memcpy(at, &half, 2);
    }
  }
}

void check_transfer(const PackFormat& format, bool out) {
  SCOPED_TRACE(std::string(out ? "unpack " : "pack ") + std::string(name_of(format.tensor)) +
               ", bucket " + std::string(name_of(format.bucket)) + ", scale " +
               std::to_string(format.scale));
  Layout layout(size_of(format.tensor), size_of(format.bucket));
  KernelArena tensors(layout.tensor_bytes);
  KernelArena bucket(layout.bucket_bytes);
  layout.place(tensors);
  ASSERT_GT(layout.segments.size(), 2 * kernels::kMaxTensors);
  run(out ? plan_unpack(layout.segments, bucket.at(), format)
          : plan_pack(layout.segments, bucket.at(), format));
  const DataType from_type = out ? format.bucket : format.tensor;
  const DataType to_type = out ? format.tensor : format.bucket;
  std::vector<std::byte> contents = out ? tensors.contents() : bucket.contents();
  KernelArena& changed = out ? tensors : bucket;
  for (std::size_t i = 0; i < layout.segments.size(); ++i) {
    const std::size_t in_bucket = layout.segments[i].offset;
    const std::size_t in_tensors = layout.tensor_offsets[i];
    const std::size_t to = out ? in_tensors : in_bucket;
    std::byte* const from = out ? bucket.expected(in_bucket) : tensors.expected(in_tensors);
    const std::size_t count = layout.segments[i].count;
    if (format.scale == 1.0 && from_type == to_type) {
      std::memcpy(changed.expected(to), from, count * size_of(from_type));
    } else {
      cast_on_host(changed.expected(to), to_type, from, from_type, count, format.scale);
    }
    expect_elements(changed, contents, to, to_type, count, "segment " + std::to_string(i));
  }
  EXPECT_EQ(std::memcmp(contents.data(), changed.expected(), contents.size()), 0)
      << "something beside the tensors was written";
}

TEST(TransferKernels, CastAsTheHostDoes) {
  for (const DataType real : {DataType::kFloat32, DataType::kFloat64}) {
    for (const DataType half : {DataType::kFloat16, DataType::kBfloat16}) {
      for (const double scale : {1.0, 0.3}) {
        check_transfer({real, half, scale}, false);
        check_transfer({real, half, scale}, true);
        check_transfer({half, real, scale}, false);
        check_transfer({half, real, scale}, true);
      }
    }
  }
}

TEST(TransferKernels, ScaleAsTheyPackAndUnpack) {
  for (const DataType dtype : {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat32,
                               DataType::kFloat64, DataType::kFloat8E4m3, DataType::kFloat8E5m2}) {
    check_transfer({dtype, dtype, 0.3}, false);
    check_transfer({dtype, dtype, 0.3}, true);
  }
}

TEST(TransferKernels, CopyAnyTypeBitByBit) {
  for (int i = 0; i < kDataTypeCount; ++i) {
    const auto dtype = static_cast<DataType>(i);
    check_transfer({dtype, dtype, 1.0}, i % 2 == 0);
  }
}

TEST(TransferKernels, NarrowAsTheWireCastOfTheHost) {
  const std::size_t count = 5000;
  for (const DataType real : {DataType::kFloat32, DataType::kFloat64}) {
    for (const DataType half : {DataType::kFloat16, DataType::kBfloat16}) {
      KernelArena tensor(count * size_of(real));
      KernelArena bucket(count * 2);
      const PackSegment segment{tensor.at(), 0, count};
      run(plan_pack({&segment, 1}, bucket.at(), {real, half, 0.7}));
      const WireCast cast{.element = real, .wire = half, .prescale = 0.7};
      cast.narrow(bucket.expected(), tensor.expected(), count);
      std::vector<std::byte> contents = bucket.contents();
      expect_elements(bucket, contents, 0, half, count, std::string(name_of(half)));
    }
  }
}

/// Tensors changed in place: `on_host` does to each what `launches` did on the GPU.
template <typename Plan, typename OnHost>
void check_in_place(DataType dtype, const Plan& plan, const OnHost& on_host) {
  Layout layout(size_of(dtype), 1);
  KernelArena tensors(layout.tensor_bytes);
  layout.place(tensors);
  run(plan(layout.segments));
  std::vector<std::byte> contents = tensors.contents();
  for (std::size_t i = 0; i < layout.segments.size(); ++i) {
    const std::size_t count = layout.segments[i].count;
    on_host(tensors.expected(layout.tensor_offsets[i]), count);
    expect_elements(tensors, contents, layout.tensor_offsets[i], dtype, count,
                    std::string(name_of(dtype)) + ", segment " + std::to_string(i));
  }
  EXPECT_EQ(std::memcmp(contents.data(), tensors.expected(), contents.size()), 0)
      << name_of(dtype) << ": something beside the tensors was written";
}

void check_scale(DataType dtype, double scale, int divisor) {
  SCOPED_TRACE(std::to_string(scale) + " / " + std::to_string(divisor));
  const bool real = is_floating(dtype) || number_bytes(dtype) != size_of(dtype);
  const Reduction reduction{.dtype = dtype, .postscale = scale, .divisor = divisor};
  const auto on_host = [&](std::byte* elements, std::size_t count) {
    const void* const source = elements;
    reduce_into(reduction, ReduceStage::kWhole, elements, {&source, 1}, count);
  };
  if (real) {
    check_in_place(
        dtype, [&](const auto& segments) { return plan_scale(segments, dtype, scale / divisor); },
        on_host);
  } else {
    check_in_place(
        dtype,
        [&](const auto& segments) { return plan_integer_scale(segments, dtype, scale, divisor); },
        on_host);
  }
}

TEST(ScaleKernels, AverageAndScaleAsTheHostReduces) {
  for (const DataType dtype :
       {DataType::kUint8, DataType::kInt8, DataType::kUint16, DataType::kInt16, DataType::kUint32,
        DataType::kInt32, DataType::kUint64, DataType::kInt64, DataType::kFloat16,
        DataType::kBfloat16, DataType::kFloat32, DataType::kFloat64, DataType::kComplex64,
        DataType::kComplex128, DataType::kFloat8E4m3, DataType::kFloat8E5m2}) {
    check_scale(dtype, 1.0, 3);
    check_scale(dtype, 0.37, 1);
    check_scale(dtype, -2.5, 7);
    check_scale(dtype, 1e30, 1);
  }
}

TEST(ScaleKernels, NothingIsLaunchedForAFactorOfOne) {
  float value = 2;
  const PackSegment segment{&value, 0, 1};
  EXPECT_TRUE(plan_scale({&segment, 1}, DataType::kFloat32, 1.0).empty());
  EXPECT_TRUE(plan_integer_scale({&segment, 1}, DataType::kInt32, 1.0, 1).empty());
}

TEST(FillKernel, FillsTheIdentitiesOfTheHost) {
  for (int i = 0; i < kDataTypeCount; ++i) {
    const auto dtype = static_cast<DataType>(i);
    for (const ReduceOp op :
         {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct, ReduceOp::kBitAnd}) {
      check_in_place(
          dtype, [&](const auto& segments) { return plan_fill_identity(segments, dtype, op); },
          [&](std::byte* elements, std::size_t count) {
            fill_identity(op, dtype, elements, count);
          });
    }
  }
}

}  // namespace
}  // namespace hvd
