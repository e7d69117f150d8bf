// SPDX-License-Identifier: Apache-2.0
// Every type and operation against a reference in float64 or whole numbers, on values that hurt.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <vector>

#include "collective/float8_bits.h"
#include "collective/half_bits.h"
#include "collective/reduce.h"

namespace hvd {
namespace {

template <typename T>
struct Format {
  using Value = T;
  static Value load(T stored) { return stored; }
  static T store(Value value) { return value; }
};
struct Float16Format {
  using Value = float;
  static Value load(std::uint16_t stored) { return float16_to_float(stored); }
  static std::uint16_t store(Value value) { return float_to_float16(value); }
};
struct Bfloat16Format {
  using Value = float;
  static Value load(std::uint16_t stored) { return bfloat16_to_float(stored); }
  static std::uint16_t store(Value value) { return float_to_bfloat16(value); }
};

template <typename Bits>
struct Float8Format {
  using Value = float;
  static Value load(std::uint8_t stored) { return float8_to_float<Bits>(stored); }
  static std::uint8_t store(Value value) { return float_to_float8<Bits>(value); }
};

template <typename T>
std::vector<T> table_reduce(ReduceOp op, DataType dtype,
                            const std::vector<std::vector<T>>& inputs) {
  std::vector<const void*> sources;
  for (const auto& input : inputs) sources.push_back(input.data());
  std::vector<T> result(inputs[0].size());
  const auto reduction = Reduction::of({.op = op}, dtype, static_cast<int>(inputs.size()));
  reduce_into(reduction, ReduceStage::kWhole, result.data(), sources, result.size());
  return result;
}

double reference(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::kSum:
      return a + b;
    case ReduceOp::kAverage:
      return (a + b) / 2;
    case ReduceOp::kProduct:
      return a * b;
    case ReduceOp::kMin:
      return std::isnan(a) || a < b ? a : b;
    default:
      return std::isnan(a) || a > b ? a : b;
  }
}

/// All pairs of the values, so that every operation meets every clash.
template <typename T>
std::vector<std::vector<T>> all_pairs(const std::vector<T>& values) {
  std::vector<std::vector<T>> inputs(2);
  for (const T a : values) {
    for (const T b : values) {
      inputs[0].push_back(a);
      inputs[1].push_back(b);
    }
  }
  return inputs;
}

template <typename Stored, typename Format>
void check_floats(DataType dtype) {
  using Value = typename Format::Value;
  using Limits = std::numeric_limits<Value>;
  const std::vector<Value> values = {0,
                                     -Value{0},
                                     1,
                                     -3,
                                     Value{0.1F},
                                     Limits::infinity(),
                                     -Limits::infinity(),
                                     Limits::quiet_NaN(),
                                     Format::load(Stored{1}),                       // subnormal
                                     Format::load(static_cast<Stored>(Stored{5})),  // subnormal
                                     Value{60000},
                                     Value{6e-5F}};
  std::vector<Stored> stored;
  for (const Value value : values) stored.push_back(Format::store(value));
  const auto inputs = all_pairs(stored);
  for (const ReduceOp op :
       {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax}) {
    const std::vector<Stored> result = table_reduce(op, dtype, inputs);
    for (std::size_t i = 0; i < result.size(); ++i) {
      const auto a = static_cast<double>(Format::load(inputs[0][i]));
      const auto b = static_cast<double>(Format::load(inputs[1][i]));
      // Once to the type that adds, once to the type that is stored: as an addition rounds.
      const Stored expected = Format::store(static_cast<Value>(reference(op, a, b)));
      const Value seen = Format::load(result[i]);
      if (std::isnan(Format::load(expected))) {
        EXPECT_TRUE(std::isnan(seen)) << name_of(dtype) << name_of(op) << a << " " << b;
      } else {
        EXPECT_EQ(seen, Format::load(expected)) << name_of(dtype) << name_of(op) << a << " " << b;
      }
    }
  }
}

float bits_to_float(std::uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
struct Float32Format {
  using Value = float;
  static Value load(std::uint32_t bits) { return bits_to_float(bits); }
  static std::uint32_t store(Value value) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
  }
};
struct Float64Format {
  using Value = double;
  static Value load(std::uint64_t bits) {
    double value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }
  static std::uint64_t store(Value value) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
  }
};

TEST(ReduceTable, FloatsMatchTheReference) {
  check_floats<std::uint32_t, Float32Format>(DataType::kFloat32);
  check_floats<std::uint64_t, Float64Format>(DataType::kFloat64);
  check_floats<std::uint16_t, Float16Format>(DataType::kFloat16);
  check_floats<std::uint16_t, Bfloat16Format>(DataType::kBfloat16);
  check_floats<std::uint8_t, Float8Format<Float8E4m3>>(DataType::kFloat8E4m3);
  check_floats<std::uint8_t, Float8Format<Float8E5m2>>(DataType::kFloat8E5m2);
}

/// The number of the format that is nearest to the value, of two the one with an even code, and the
/// largest beyond it: found among all numbers, in float64.
template <typename Bits>
double nearest(double value) {
  double best = 0;
  unsigned best_code = 0;
  for (unsigned code = 0; code < 0x80; ++code) {
    const auto number = static_cast<double>(float8_to_float<Bits>(static_cast<std::uint8_t>(code)));
    if (!std::isfinite(number)) continue;
    const double distance = std::fabs(std::fabs(value) - number);
    const double least = std::fabs(std::fabs(value) - best);
    if (distance < least || (distance == least && code % 2 == 0 && best_code % 2 != 0)) {
      best = number;
      best_code = code;
    }
  }
  return std::copysign(best, value);
}

// Three ranks, so that a fold that rounds in between would show.
template <typename Bits>
void check_float8_against_all_numbers(DataType dtype) {
  std::vector<std::vector<std::uint8_t>> inputs(3);
  for (unsigned a = 0; a < 0x100; ++a) {
    for (unsigned b = 0; b < 0x100; ++b) {
      inputs[0].push_back(static_cast<std::uint8_t>(a));
      inputs[1].push_back(static_cast<std::uint8_t>(b));
      inputs[2].push_back(static_cast<std::uint8_t>((a * 31 + b * 17) & 0xff));
    }
  }
  const auto number = [](std::uint8_t code) { return float8_to_float<Bits>(code); };
  const std::vector<std::uint8_t> sums = table_reduce(ReduceOp::kSum, dtype, inputs);
  const std::vector<std::uint8_t> averages = table_reduce(ReduceOp::kAverage, dtype, inputs);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const float sum = number(inputs[0][i]) + number(inputs[1][i]) + number(inputs[2][i]);
    if (!std::isfinite(sum)) continue;  // FloatsMatchTheReference
    const float average = sum * static_cast<float>(1.0 / 3);
    ASSERT_EQ(number(sums[i]), nearest<Bits>(sum)) << name_of(dtype) << " " << i;
    ASSERT_EQ(number(averages[i]), nearest<Bits>(average)) << name_of(dtype) << " " << i;
  }
}

TEST(ReduceTable, Float8RoundsOnceAndSaturates) {
  check_float8_against_all_numbers<Float8E4m3>(DataType::kFloat8E4m3);
  check_float8_against_all_numbers<Float8E5m2>(DataType::kFloat8E5m2);
}

/// What the operation gives in the whole numbers modulo 2^64, and so in every narrower type.
template <typename T>
T whole_reference(ReduceOp op, T a, T b) {
  const auto x = static_cast<std::uint64_t>(a);
  const auto y = static_cast<std::uint64_t>(b);
  switch (op) {
    case ReduceOp::kSum:
      return static_cast<T>(x + y);
    case ReduceOp::kProduct:
      return static_cast<T>(x * y);
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kBitAnd:
      return static_cast<T>(x & y);
    case ReduceOp::kBitOr:
      return static_cast<T>(x | y);
    default:
      return static_cast<T>(x ^ y);
  }
}

template <typename T>
void check_integers(DataType dtype) {
  using Limits = std::numeric_limits<T>;
  const auto inputs = all_pairs<T>({0, 1, static_cast<T>(-1), 2, 99, 85, Limits::max(),
                                    static_cast<T>(Limits::max() - 1), Limits::min(),
                                    static_cast<T>(Limits::min() + 1)});
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax,
                            ReduceOp::kBitAnd, ReduceOp::kBitOr, ReduceOp::kBitXor}) {
    const std::vector<T> result = table_reduce(op, dtype, inputs);
    for (std::size_t i = 0; i < result.size(); ++i) {
      EXPECT_EQ(result[i], whole_reference(op, inputs[0][i], inputs[1][i]))
          << name_of(dtype) << " " << name_of(op) << " " << +inputs[0][i] << " " << +inputs[1][i];
    }
  }
}

TEST(ReduceTable, IntegersWrapAndTakeBits) {
  check_integers<std::uint8_t>(DataType::kUint8);
  check_integers<std::int8_t>(DataType::kInt8);
  check_integers<std::uint16_t>(DataType::kUint16);
  check_integers<std::int16_t>(DataType::kInt16);
  check_integers<std::int32_t>(DataType::kInt32);
  check_integers<std::uint32_t>(DataType::kUint32);
  check_integers<std::int64_t>(DataType::kInt64);
  check_integers<std::uint64_t>(DataType::kUint64);
}

TEST(ReduceTable, BoolsAreAnyAllOrOdd) {
  const std::vector<std::vector<std::uint8_t>> inputs = {
      {0, 7, 0, 1, 255}, {0, 0, 2, 1, 128}, {0, 0, 0, 4, 3}};
  const std::vector<std::uint8_t> any = {0, 1, 1, 1, 1};
  const std::vector<std::uint8_t> all = {0, 0, 0, 1, 1};
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kBitOr}) {
    EXPECT_EQ(table_reduce(op, DataType::kBool, inputs), any) << name_of(op);
  }
  for (const ReduceOp op : {ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kBitAnd}) {
    EXPECT_EQ(table_reduce(op, DataType::kBool, inputs), all) << name_of(op);
  }
  EXPECT_EQ(table_reduce(ReduceOp::kBitXor, DataType::kBool, inputs), any);
  const std::vector<std::vector<std::uint8_t>> twice = {inputs[1], inputs[1]};
  EXPECT_EQ(table_reduce(ReduceOp::kBitXor, DataType::kBool, twice),
            (std::vector<std::uint8_t>{0, 0, 0, 0, 0}));
}

template <typename T>
void check_complex(DataType dtype) {
  using Complex = std::complex<T>;
  const T tiny = std::numeric_limits<T>::denorm_min();
  const T infinity = std::numeric_limits<T>::infinity();
  const auto inputs = all_pairs<Complex>({{0, 0},
                                          {1, -2},
                                          {T{0.1F}, T{0.3F}},
                                          {tiny, -3 * tiny},
                                          {infinity, 1},
                                          {1, std::numeric_limits<T>::quiet_NaN()},
                                          {-7, T{1e18F}}});
  const auto same = [](T a, T b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kProduct}) {
    const std::vector<Complex> result = table_reduce(op, dtype, inputs);
    for (std::size_t i = 0; i < result.size(); ++i) {
      const Complex a = inputs[0][i];
      const Complex b = inputs[1][i];
      Complex expected = a + b;
      if (op == ReduceOp::kAverage) expected /= T{2};
      if (op == ReduceOp::kProduct) {
        expected = {a.real() * b.real() - a.imag() * b.imag(),
                    a.real() * b.imag() + a.imag() * b.real()};
      }
      EXPECT_TRUE(same(result[i].real(), expected.real()) &&
                  same(result[i].imag(), expected.imag()))
          << name_of(op) << " of " << a << " and " << b << " is " << result[i];
    }
  }
}

TEST(ReduceTable, ComplexNumbersAddAndMultiply) {
  check_complex<float>(DataType::kComplex64);
  check_complex<double>(DataType::kComplex128);
}

TEST(ReduceTable, ComplexNumbersScaleByReals) {
  using Complex = std::complex<double>;
  const std::vector<Complex> a = {{1, 2}};
  const std::vector<Complex> b = {{3, -4}};
  const void* const sources[] = {a.data(), b.data()};
  std::vector<Complex> result(1);
  const Allreduce scaled{.op = ReduceOp::kAverage, .prescale = 0.5, .postscale = 8};
  reduce_into(Reduction::of(scaled, DataType::kComplex128, 2), ReduceStage::kWhole, result.data(),
              sources, 1);
  EXPECT_EQ(result[0], Complex(8, -4));
}

TEST(ReduceTable, EveryPairEitherReducesOrSaysWhyNot) {
  for (int type = 0; type < kDataTypeCount; ++type) {
    for (int number = 0; number <= static_cast<int>(ReduceOp::kBitXor); ++number) {
      const auto op = static_cast<ReduceOp>(number);
      if (op == ReduceOp::kAdasum) continue;  // no element by element
      const auto dtype = static_cast<DataType>(type);
      const Status status = check_reducible({.op = op}, dtype);
      if (status.is_ok()) {
        const std::vector<std::byte> zeros(64);
        std::vector<std::byte> result(64);
        const void* const sources[] = {zeros.data(), zeros.data()};
        reduce_into(Reduction::of({.op = op}, dtype, 2), ReduceStage::kWhole, result.data(),
                    sources, 64 / size_of(dtype));
        EXPECT_EQ(result, zeros) << name_of(op) << " of " << name_of(dtype);
      } else {
        EXPECT_EQ(status.code(), Code::kUnsupported);
        EXPECT_NE(status.message().find(name_of(op)), std::string::npos) << status.message();
      }
    }
  }
  EXPECT_FALSE(check_reducible({.op = ReduceOp::kBitOr, .prescale = 2}, DataType::kInt32).is_ok());
}

}  // namespace
}  // namespace hvd
