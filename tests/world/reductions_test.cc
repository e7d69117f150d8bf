// SPDX-License-Identifier: Apache-2.0
// Allreduce end to end: reduction x type x size x world, among all ranks and among some of them,
// against a reference in float64, and with the same bits on every rank and in every run.
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <string>

#include "base/bytes.h"
#include "collective/half_bits.h"
#include "collective/reduce.h"
#include "world/world.h"

namespace hvd {
namespace {

using Number = std::complex<double>;

template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

template <typename T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof(T));
}

/// Calls visit(T{}) with the C++ type of `dtype`; the half types as themselves by their 16 bits.
template <typename Visit>
auto with_type(DataType dtype, Visit visit) {
  switch (dtype) {
    case DataType::kUint8:
    case DataType::kBool:
      return visit(std::uint8_t{});
    case DataType::kInt8:
      return visit(std::int8_t{});
    case DataType::kUint16:
      return visit(std::uint16_t{});
    case DataType::kInt16:
      return visit(std::int16_t{});
    case DataType::kUint32:
      return visit(std::uint32_t{});
    case DataType::kInt32:
      return visit(std::int32_t{});
    case DataType::kUint64:
      return visit(std::uint64_t{});
    case DataType::kInt64:
      return visit(std::int64_t{});
    case DataType::kFloat32:
      return visit(float{});
    default:
      return visit(double{});
  }
}

bool is_half(DataType dtype) { return dtype == DataType::kFloat16 || dtype == DataType::kBfloat16; }
bool is_complex(DataType dtype) {
  return dtype == DataType::kComplex64 || dtype == DataType::kComplex128;
}
bool is_float(DataType dtype) {
  return is_half(dtype) || is_complex(dtype) || dtype == DataType::kFloat32 ||
         dtype == DataType::kFloat64;
}

void put(std::byte* at, DataType dtype, Number value) {
  const auto narrow = static_cast<float>(value.real());
  if (dtype == DataType::kFloat16) return store(at, float_to_float16(narrow));
  if (dtype == DataType::kBfloat16) return store(at, float_to_bfloat16(narrow));
  if (dtype == DataType::kComplex64) return store(at, std::complex<float>(value));
  if (dtype == DataType::kComplex128) return store(at, value);
  with_type(dtype, [&](auto like) { store(at, static_cast<decltype(like)>(value.real())); });
}

Number get(const std::byte* at, DataType dtype) {
  if (dtype == DataType::kFloat16) return float16_to_float(load<std::uint16_t>(at));
  if (dtype == DataType::kBfloat16) return bfloat16_to_float(load<std::uint16_t>(at));
  if (dtype == DataType::kComplex64) return Number(load<std::complex<float>>(at));
  if (dtype == DataType::kComplex128) return load<Number>(at);
  return with_type(
      dtype, [&](auto like) { return Number(static_cast<double>(load<decltype(like)>(at))); });
}

/// Distance between 1 and the next number of the type.
double epsilon_of(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat16:
      return 0x1p-10;
    case DataType::kBfloat16:
      return 0x1p-7;
    case DataType::kFloat32:
    case DataType::kComplex64:
      return std::numeric_limits<float>::epsilon();
    default:
      return std::numeric_limits<double>::epsilon();
  }
}

struct Case {
  Allreduce operation;
  DataType dtype;
  std::size_t count;
};

/// What `rank` holds at `index`: whole numbers from 1 to 3 for a product of integers, which may
/// wrap; small ones for their sums, which must not, since averages are cut; fractions of floats.
Number input_at(const Case& test, int rank, std::size_t index) {
  const auto mixed = static_cast<int>((index * 7 + static_cast<std::size_t>(rank) * 13) % 23);
  if (test.dtype == DataType::kBool) return mixed % 3 == 0 ? 1.0 : 0.0;
  if (is_complex(test.dtype)) return Number(0.25 + mixed / 8.0, 1.0 - mixed / 16.0);
  if (is_float(test.dtype)) return 0.5 + mixed / 7.0;
  return test.operation.op == ReduceOp::kProduct ? 1 + mixed % 3 : mixed % 10;
}

Bytes inputs_of(const Case& test, int rank) {
  const std::size_t element = size_of(test.dtype);
  Bytes bytes(test.count * element);
  for (std::size_t i = 0; i < test.count; ++i) {
    put(&bytes[i * element], test.dtype, input_at(test, rank, i));
  }
  return bytes;
}

Number fold(ReduceOp op, Number a, Number b) {
  const auto bits = [](Number value) { return static_cast<std::uint64_t>(value.real()); };
  switch (op) {
    case ReduceOp::kMin:
      return std::min(a.real(), b.real());
    case ReduceOp::kMax:
      return std::max(a.real(), b.real());
    case ReduceOp::kProduct:
      return a * b;
    case ReduceOp::kBitAnd:
      return static_cast<double>(bits(a) & bits(b));
    case ReduceOp::kBitOr:
      return static_cast<double>(bits(a) | bits(b));
    case ReduceOp::kBitXor:
      return static_cast<double>(bits(a) ^ bits(b));
    default:
      return a + b;
  }
}

/// The result at `index`, before it is rounded to the type; a sum of bool is "any".
Number expected_at(const Case& test, const std::vector<int>& ranks, std::size_t index) {
  const std::size_t element = size_of(test.dtype);
  Bytes rounded(element);
  Number total;
  for (const int rank : ranks) {
    put(rounded.data(), test.dtype, input_at(test, rank, index));
    const Number value = get(rounded.data(), test.dtype);
    total = rank == ranks.front() ? value : fold(test.operation.op, total, value);
  }
  if (test.dtype == DataType::kBool) return total.real() > 0 ? 1.0 : 0.0;
  if (test.operation.op == ReduceOp::kAverage) total /= static_cast<double>(ranks.size());
  if (is_float(test.dtype)) return total;
  return with_type(test.dtype, [&](auto like) {
    return Number(
        static_cast<double>(static_cast<decltype(like)>(static_cast<std::int64_t>(total.real()))));
  });
}

void expect_result(const Case& test, const std::vector<int>& ranks, const Bytes& output) {
  const std::size_t element = size_of(test.dtype);
  const double slack =
      is_float(test.dtype) ? epsilon_of(test.dtype) * static_cast<double>(ranks.size()) : 0;
  for (std::size_t i = 0; i < test.count; ++i) {
    const Number expected = expected_at(test, ranks, i);
    const Number got = get(&output[i * element], test.dtype);
    ASSERT_LE(std::abs(got - expected), slack * std::abs(expected))
        << describe(Operation(test.operation)) << " of " << name_of(test.dtype) << ", element " << i
        << " of " << test.count << ": " << got << ", not " << expected;
  }
}

/// The outputs of all cases, one after the other.
Bytes reduce_all(int rank, Engine& engine, int process_set, const std::vector<Case>& cases) {
  Bytes all;
  const std::vector<int> ranks = engine.process_set_ranks(process_set).value();
  for (const Case& test : cases) {
    const Bytes input = inputs_of(test, rank);
    Bytes output(input.size());
    Request request;
    request.name = describe(Operation(test.operation)) + std::string(name_of(test.dtype)) +
                   std::to_string(test.count);
    request.process_set = process_set;
    request.operation = test.operation;
    request.tensors.push_back({.input = input.data(),
                               .output = output.data(),
                               .dtype = test.dtype,
                               .shape = {static_cast<std::int64_t>(test.count)}});
    const Status status = run_request(engine, std::move(request));
    EXPECT_TRUE(status.is_ok()) << status.message();
    expect_result(test, ranks, output);
    all.insert(all.end(), output.begin(), output.end());
  }
  return all;
}

/// Every reduction of every type that has it, but Adasum, which is not a fold of elements.
std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (int op = 0; op <= static_cast<int>(ReduceOp::kBitXor); ++op) {
    const Allreduce operation{static_cast<ReduceOp>(op), 1.0, 1.0};
    if (operation.op == ReduceOp::kAdasum) continue;
    for (int dtype = 0; dtype <= static_cast<int>(DataType::kComplex128); ++dtype) {
      const auto type = static_cast<DataType>(dtype);
      if (!check_reducible(operation, type).is_ok()) continue;
      for (const std::size_t count : {0U, 1U, 37U, 3001U})
        cases.push_back({operation, type, count});
    }
  }
  for (const DataType dtype : {DataType::kFloat32, DataType::kBfloat16, DataType::kInt64}) {
    for (const std::size_t count : {0U, 37U, 100'003U}) {
      cases.push_back({Allreduce{ReduceOp::kAverage, 1.0, 1.0}, dtype, count});
    }
  }
  return cases;
}

class ReductionsWorld : public testing::TestWithParam<std::vector<int>> {};

TEST_P(ReductionsWorld, AreRightAndTheSameBitsOnEveryRank) {
  const std::vector<Case> cases = all_cases();
  ASSERT_GT(cases.size(), 150U);
  World world(GetParam());
  std::vector<Bytes> results(static_cast<std::size_t>(world.size()));
  world.run([&](int rank, Engine& engine) {
    results[static_cast<std::size_t>(rank)] = reduce_all(rank, engine, 0, cases);
  });
  for (const Bytes& result : results) EXPECT_TRUE(result == results.front());
}

TEST_P(ReductionsWorld, AreTheSameBitsInEveryRun) {
  std::vector<Case> cases = all_cases();
  // Only the order of an addition of fractions could show.
  std::erase_if(cases, [](const Case& test) {
    return !is_float(test.dtype) || test.operation.op != ReduceOp::kAverage;
  });
  ASSERT_GE(cases.size(), 10U);
  Bytes first;
  for (int run = 0; run < 3; ++run) {
    World world(GetParam());
    Bytes result;
    world.run([&](int rank, Engine& engine) {
      Bytes mine = reduce_all(rank, engine, 0, cases);
      if (rank == 0) result = std::move(mine);
    });
    if (run == 0) first = result;
    EXPECT_TRUE(result == first) << "run " << run;
  }
}

TEST_P(ReductionsWorld, AreRightAmongEveryOtherRankWhileTheRestWorkToo) {
  World world(GetParam());
  const std::vector<Case> cases = all_cases();
  std::vector<Bytes> results(static_cast<std::size_t>(world.size()));
  world.run([&](int rank, Engine& engine) {
    std::vector<int> sets;
    for (int parity = 0; parity < 2; ++parity) {
      std::vector<int> ranks;
      for (int member = parity; member < world.size(); member += 2) ranks.push_back(member);
      sets.push_back(engine.add_process_set(ranks, soon()).value());
    }
    results[static_cast<std::size_t>(rank)] =
        reduce_all(rank, engine, sets[static_cast<std::size_t>(rank % 2)], cases);
  });
  for (std::size_t rank = 2; rank < results.size(); ++rank) {
    EXPECT_TRUE(results[rank] == results[rank - 2]) << "rank " << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, ReductionsWorld,
                         testing::Values(std::vector<int>{2}, std::vector<int>{5},
                                         std::vector<int>{2, 2}, std::vector<int>{3, 1},
                                         std::vector<int>{1, 1, 1}, std::vector<int>{2, 1, 1, 1}));

}  // namespace
}  // namespace hvd
