// SPDX-License-Identifier: Apache-2.0
#include "collective/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "collective/half_bits.h"
#include "collective/reduce_kernels.h"

namespace hvd {
namespace {

template <typename T>
std::vector<T> reduce(const Allreduce& operation, DataType dtype,
                      const std::vector<std::vector<T>>& inputs) {
  std::vector<const void*> sources;
  for (const auto& input : inputs) sources.push_back(input.data());
  std::vector<T> result(inputs[0].size());
  const auto reduction = Reduction::of(operation, dtype, static_cast<int>(inputs.size()));
  reduce_into(reduction, ReduceStage::kWhole, result.data(), sources, result.size());
  return result;
}

TEST(Reduce, FoldsFloatsInRankOrder) {
  // In any other order the small numbers would survive or vanish together.
  const std::vector<std::vector<float>> inputs = {{1e8F, 1.0F}, {1.0F, 1e8F}, {-1e8F, -1e8F}};
  EXPECT_EQ(reduce<float>({}, DataType::kFloat32, inputs),
            (std::vector<float>{(1e8F + 1.0F) + -1e8F, (1.0F + 1e8F) + -1e8F}));
}

TEST(Reduce, AveragesIntegersTowardZero) {
  const Allreduce average{.op = ReduceOp::kAverage};
  EXPECT_EQ(reduce<std::int32_t>(average, DataType::kInt32, {{1, -1}, {2, -2}}),
            (std::vector<std::int32_t>{1, -1}));
  // 49 * (1 / 49.0) is below 1: only a true division is right.
  EXPECT_EQ(reduce<std::int64_t>(average, DataType::kInt64,
                                 std::vector<std::vector<std::int64_t>>(49, {1}))[0],
            1);
}

TEST(Reduce, ScalesIntegersBeforeAndAfterThroughDouble) {
  EXPECT_EQ(reduce<std::int32_t>({.prescale = 0.5}, DataType::kInt32, {{3}, {3}})[0], 2);
  EXPECT_EQ(reduce<std::int8_t>({.postscale = 100}, DataType::kInt8, {{3}, {-7}})[0], -128);
  EXPECT_EQ(reduce<std::uint8_t>({.postscale = -1}, DataType::kUint8, {{3}, {7}})[0], 0);
}

TEST(Reduce, WrapsIntegers) {
  EXPECT_EQ(reduce<std::uint8_t>({}, DataType::kUint8, {{200}, {100}})[0], 44);
  EXPECT_EQ(
      reduce<std::uint16_t>({.op = ReduceOp::kProduct}, DataType::kUint16, {{65535}, {65535}})[0],
      1);
}

TEST(Reduce, TakesAnyNonZeroByteAsTrue) {
  const std::vector<std::vector<std::uint8_t>> inputs = {{0, 2, 3}, {0, 0, 4}};
  EXPECT_EQ(reduce<std::uint8_t>({}, DataType::kBool, inputs),
            (std::vector<std::uint8_t>{0, 1, 1}));
  EXPECT_EQ(reduce<std::uint8_t>({.op = ReduceOp::kMin}, DataType::kBool, inputs),
            (std::vector<std::uint8_t>{0, 0, 1}));
}

TEST(Reduce, HandsNanOn) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kSum}) {
    EXPECT_TRUE(std::isnan(reduce<float>({.op = op}, DataType::kFloat32, {{nan}, {1}})[0]));
    EXPECT_TRUE(std::isnan(reduce<float>({.op = op}, DataType::kFloat32, {{1}, {nan}})[0]));
  }
}

TEST(Reduce, RoundsHalfTypesOnce) {
  // 2048 + 1 + 1: rounding after each addition would give 2048.
  const std::uint16_t big = float_to_float16(2048);
  const std::uint16_t one = float_to_float16(1);
  EXPECT_EQ(
      float16_to_float(reduce<std::uint16_t>({}, DataType::kFloat16, {{big}, {one}, {one}})[0]),
      2050.0F);
  const std::uint16_t bf_big = float_to_bfloat16(256);
  const std::uint16_t bf_one = float_to_bfloat16(1);
  EXPECT_EQ(bfloat16_to_float(
                reduce<std::uint16_t>({}, DataType::kBfloat16, {{bf_big}, {bf_one}, {bf_one}})[0]),
            258.0F);
}

TEST(Reduce, RefusesWhatHasNoMeaning) {
  EXPECT_TRUE(check_reduction(Allreduce{.op = ReduceOp::kAdasum}, DataType::kFloat32).is_ok());
  EXPECT_EQ(check_reduction(Allreduce{.op = ReduceOp::kAdasum}, DataType::kInt32).code(),
            Code::kUnsupported);
  EXPECT_EQ(check_reduction(Reduce{.op = ReduceOp::kAdasum}, DataType::kFloat32).code(),
            Code::kUnsupported);
  EXPECT_EQ(check_reduction(Allreduce{.op = ReduceOp::kAdasum}, DataType::kFloat8E5m2).code(),
            Code::kUnsupported);
  EXPECT_EQ(check_reducible({.op = ReduceOp::kBitOr}, DataType::kFloat8E4m3).code(),
            Code::kUnsupported);
  EXPECT_TRUE(check_reduction(Barrier{}, DataType::kBool).is_ok());
  EXPECT_EQ(check_reducible({.op = ReduceOp::kAverage}, DataType::kBool).code(),
            Code::kUnsupported);
  EXPECT_TRUE(check_reducible({.op = ReduceOp::kMax}, DataType::kBool).is_ok());
}

TEST(HalfBits, EveryFloat16SurvivesTheRoundTrip) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const bool is_nan = (half & 0x7fffU) > 0x7c00U;
    const auto expected = static_cast<std::uint16_t>(is_nan ? half | 0x200U : half);
    ASSERT_EQ(float_to_float16(float16_to_float(half)), expected) << bits;
  }
}

/// Unsigned numbers of the width of one real number, and how it shows a NaN.
template <typename Bits>
bool same_numbers(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b,
                  std::size_t bytes, Bits infinity) {
  const auto magnitude = static_cast<Bits>(static_cast<Bits>(~Bits{0}) >> 1);
  for (std::size_t offset = 0; offset < bytes; offset += sizeof(Bits)) {
    Bits x = 0;
    Bits y = 0;
    std::memcpy(&x, reinterpret_cast<const char*>(a.data()) + offset, sizeof x);
    std::memcpy(&y, reinterpret_cast<const char*>(b.data()) + offset, sizeof y);
    const bool both_nan = (x & magnitude) > infinity && (y & magnitude) > infinity;
    if (x != y && !both_nan) return false;
  }
  return true;
}

/// Equal bits, except for which NaN a NaN is: where two meet, that is the compiler's choice.
bool same_results(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b,
                  DataType type, ReduceStage stage, std::size_t count) {
  const bool is_narrow =
      type == DataType::kFloat16 || type == DataType::kBfloat16 || is_float8(type);
  const bool widens =
      is_narrow && (stage == ReduceStage::kPartial || stage == ReduceStage::kCombine);
  const std::size_t bytes = count * (widens ? sizeof(float) : size_of(type));
  const std::size_t all = a.size() * sizeof a[0];
  if (std::memcmp(a.data(), b.data(), all) == 0) return true;
  const auto* behind_a = reinterpret_cast<const char*>(a.data()) + bytes;
  const auto* behind_b = reinterpret_cast<const char*>(b.data()) + bytes;
  if (std::memcmp(behind_a, behind_b, all - bytes) != 0) return false;
  if (widens || type == DataType::kFloat32 || type == DataType::kComplex64) {
    return same_numbers<std::uint32_t>(a, b, bytes, 0x7f800000U);
  }
  if (type == DataType::kFloat64 || type == DataType::kComplex128) {
    return same_numbers<std::uint64_t>(a, b, bytes, 0x7ff0000000000000U);
  }
  if (type == DataType::kFloat16) return same_numbers<std::uint16_t>(a, b, bytes, 0x7c00U);
  if (type == DataType::kBfloat16) return same_numbers<std::uint16_t>(a, b, bytes, 0x7f80U);
  if (type == DataType::kFloat8E4m3) return same_numbers<std::uint8_t>(a, b, bytes, 0x7eU);
  return type == DataType::kFloat8E5m2 && same_numbers<std::uint8_t>(a, b, bytes, 0x7cU);
}

// Every kernel of the newer instruction set against the baseline, on raw random bits: all NaNs,
// subnormals and halfway cases included.
TEST(ReduceKernels, AllInstructionSetsGiveTheSameBits) {
  const ReduceKernelFinder best = best_kernel_finder();
  const std::size_t count = 20'003;
  std::vector<std::vector<std::uint64_t>> inputs(3, std::vector<std::uint64_t>(count * 2));
  std::uint64_t state = 1;
  for (auto& input : inputs) {
    for (auto& word : input) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      word = state ^ (state >> 29);
    }
  }
  const void* const sources[] = {inputs[0].data(), inputs[1].data(), inputs[2].data()};
  const ReduceFactors factors[] = {{}, {.prescale = 0.3, .postscale = 1.9, .divisor = 3}};
  for (int type = 0; type < kDataTypeCount; ++type) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct,
                              ReduceOp::kBitAnd, ReduceOp::kBitOr, ReduceOp::kBitXor}) {
      if (!check_reducible({.op = op}, static_cast<DataType>(type)).is_ok()) continue;
      for (const ReduceStage stage : {ReduceStage::kWhole, ReduceStage::kPartial,
                                      ReduceStage::kCombine, ReduceStage::kFinish}) {
        for (const ReduceFactors& factor : factors) {
          for (const std::size_t source_count : {1, 2, 3}) {
            const auto dtype = static_cast<DataType>(type);
            std::vector<std::uint64_t> expected(count * 2);
            std::vector<std::uint64_t> result(count * 2);
            baseline_kernel(dtype, op, stage)(expected.data(), sources, source_count, count,
                                              factor);
            best(dtype, op, stage)(result.data(), sources, source_count, count, factor);
            ASSERT_TRUE(same_results(result, expected, dtype, stage, count))
                << name_of(dtype) << " " << name_of(op) << " stage " << static_cast<int>(stage)
                << " sources " << source_count << " divisor " << factor.divisor;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace hvd
