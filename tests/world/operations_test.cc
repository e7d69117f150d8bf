// SPDX-License-Identifier: Apache-2.0
// Reducescatter, reduce, alltoall, gather and scatter, end to end: operation x type x size x world
// against sums in float64, and what becomes of them when a rank dies.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "base/bytes.h"
#include "collective/float8_bits.h"
#include "collective/half_bits.h"
#include "world/world.h"

namespace hvd {
namespace {

using testing::HasSubstr;

template <typename T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof(T));
}

/// `value`, a small whole number, as an element.
void put(std::byte* at, DataType dtype, double value) {
  switch (dtype) {
    case DataType::kFloat32:
      return store(at, static_cast<float>(value));
    case DataType::kFloat64:
      return store(at, value);
    case DataType::kFloat16:
      return store(at, float_to_float16(static_cast<float>(value)));
    case DataType::kBfloat16:
      return store(at, float_to_bfloat16(static_cast<float>(value)));
    case DataType::kFloat8E4m3:
      return store(at, float_to_float8<Float8E4m3>(static_cast<float>(value)));
    case DataType::kFloat8E5m2:
      return store(at, float_to_float8<Float8E5m2>(static_cast<float>(value)));
    case DataType::kInt32:
      return store(at, static_cast<std::int32_t>(value));
    case DataType::kInt64:
      return store(at, static_cast<std::int64_t>(value));
    case DataType::kComplex64:
      store(at, static_cast<float>(value));
      return store(at + sizeof(float), static_cast<float>(-value));
    default:
      return store(at, static_cast<std::uint8_t>(value));
  }
}

/// What rank `rank` holds at row `row` of `tensor`.
double value_of(int rank, std::int64_t row, std::size_t tensor) {
  return static_cast<double>((rank * 3 + row + static_cast<std::int64_t>(tensor)) % 11);
}

/// What is left of it in a tensor: e5m2 has no 9.
double held(DataType dtype, double value) {
  if (dtype != DataType::kFloat8E5m2) return value;
  return float8_to_float<Float8E5m2>(float_to_float8<Float8E5m2>(static_cast<float>(value)));
}

constexpr std::int64_t kRowCount = 3;

void append_rows(Bytes& bytes, DataType dtype, std::int64_t rows, auto&& value) {
  const std::size_t element = size_of(dtype);
  std::size_t at = bytes.size();
  bytes.resize(at + static_cast<std::size_t>(rows * kRowCount) * element);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < kRowCount; ++i, at += element) put(&bytes[at], dtype, value(row));
  }
}

Bytes rows_of(DataType dtype, std::int64_t rows, auto&& value) {
  Bytes bytes;
  append_rows(bytes, dtype, rows, value);
  return bytes;
}

struct Case {
  Operation operation;
  DataType dtype;
  std::int64_t rows;
};

std::int64_t share_begin(std::int64_t rows, int size, int rank) {
  return static_cast<std::int64_t>(first_row_of(static_cast<std::size_t>(rows),
                                                static_cast<std::size_t>(size),
                                                static_cast<std::size_t>(rank)));
}

/// Rows that `source` sends to `destination` of an alltoall: uneven, some none.
std::int64_t split_of(std::int64_t rows, int source, int destination) {
  return rows * ((source + destination * 2) % 3) / 2;
}

/// The process set of a case. Its ranks hold what ranks 0, 1, ... of a job of that size would, and
/// the roots of cases count within it.
struct Members {
  int process_set = 0;
  std::vector<int> ranks;  ///< Of the job, ascending.
  int rank = 0;            ///< Mine, within the set.

  int size() const { return static_cast<int>(ranks.size()); }
};

Members all_ranks(const Engine& engine, int rank) {
  return {0, engine.process_set_ranks(0).value(), rank};
}

/// Submits `test` on two tensors; the results of each, as the library gives them.
struct Run {
  const Case& test;
  const Members& members;
  std::vector<Bytes> inputs;
  std::vector<Bytes> outputs;

  std::int64_t rows_here() const {
    if (std::holds_alternative<Alltoall>(test.operation)) {
      std::int64_t rows = 1;  // one row more than is sent
      for (int to = 0; to < members.size(); ++to) rows += split_of(test.rows, members.rank, to);
      return rows;
    }
    // The rows of a gather differ by rank.
    return test.rows + (std::holds_alternative<Gather>(test.operation) ? members.rank : 0);
  }

  Request request() {
    Request request;
    request.name = describe(test.operation) + std::string(name_of(test.dtype));
    request.process_set = members.process_set;
    request.operation = test.operation;
    const int rank = members.rank;
    const auto root = root_of(test.operation);
    if (root) set_root(request.operation, members.ranks[static_cast<std::size_t>(*root)]);
    const std::int64_t rows = rows_here();
    const bool root_only = std::holds_alternative<Reduce>(test.operation);
    for (std::size_t i = 0; i < 2; ++i) {
      inputs.push_back(
          rows_of(test.dtype, rows, [&](std::int64_t row) { return value_of(rank, row, i); }));
      outputs.emplace_back(root_only && root == rank ? inputs[i].size() : 0);
    }
    for (std::size_t i = 0; i < 2; ++i) {
      Tensor tensor{.input = inputs[i].data(),
                    .output = outputs[i].empty() ? nullptr : outputs[i].data(),
                    .dtype = test.dtype,
                    .shape = {rows, kRowCount}};
      for (int to = 0; std::holds_alternative<Alltoall>(test.operation) && to < members.size();
           ++to) {
        tensor.splits.push_back(split_of(test.rows, rank, to));
      }
      request.tensors.push_back(std::move(tensor));
    }
    return request;
  }
};

/// What must come of tensor `index` on `rank`, from sums in float64.
Bytes expected_of(const Case& test, int size, int rank, std::size_t index) {
  const auto sum = [&](std::int64_t row) {
    double total = 0;
    for (int from = 0; from < size; ++from) total += held(test.dtype, value_of(from, row, index));
    return total;
  };
  const auto root = root_of(test.operation);
  Bytes bytes;
  if (std::holds_alternative<Reduce>(test.operation)) {
    return root == rank ? rows_of(test.dtype, test.rows, sum) : bytes;
  }
  const std::int64_t begin = share_begin(test.rows, size, rank);
  const std::int64_t share = share_begin(test.rows, size, rank + 1) - begin;
  if (std::holds_alternative<Reducescatter>(test.operation)) {
    return rows_of(test.dtype, share, [&](std::int64_t row) { return sum(begin + row); });
  }
  if (std::holds_alternative<Scatter>(test.operation)) {
    return rows_of(test.dtype, share,
                   [&](std::int64_t row) { return value_of(*root, begin + row, index); });
  }
  if (std::holds_alternative<Gather>(test.operation) && root != rank) return bytes;
  for (int from = 0; from < size; ++from) {
    std::int64_t first = 0;
    std::int64_t rows = test.rows + from;
    if (std::holds_alternative<Alltoall>(test.operation)) {
      for (int to = 0; to < rank; ++to) first += split_of(test.rows, from, to);
      rows = split_of(test.rows, from, rank);
    }
    append_rows(bytes, test.dtype, rows,
                [&](std::int64_t row) { return value_of(from, first + row, index); });
  }
  return bytes;
}

void check(Engine& engine, const Members& members, const Case& test) {
  Run run{test, members, {}, {}};
  const auto handle = engine.submit(run.request());
  ASSERT_TRUE(handle.is_ok()) << handle.status().message();
  const Status status = engine.wait(handle.value(), soon());
  ASSERT_TRUE(status.is_ok()) << status.message();
  for (std::size_t i = 0; i < 2; ++i) {
    const Bytes expected = expected_of(test, members.size(), members.rank, i);
    const std::string what = describe(test.operation) + " of " + std::string(name_of(test.dtype)) +
                             ", " + std::to_string(test.rows) + " rows";
    if (std::holds_alternative<Reduce>(test.operation)) {
      EXPECT_TRUE(run.outputs[i] == expected) << what;
      continue;
    }
    const GatherResult& result = *engine.gathered(handle.value(), i).value();
    const std::size_t bytes =
        static_cast<std::size_t>(result.shape[0] * result.shape[1]) * size_of(test.dtype);
    ASSERT_EQ(bytes, expected.size()) << what;
    EXPECT_TRUE(bytes == 0 || std::memcmp(result.data.get(), expected.data(), bytes) == 0) << what;
  }
  engine.release(handle.value());
}

class OperationsWorld : public testing::TestWithParam<std::vector<int>> {};

void check_all(Engine& engine, const Members& members) {
  const int last = members.size() - 1;
  const Operation operations[] = {Reducescatter{}, Reduce{last}, Alltoall{}, Gather{last},
                                  Scatter{last}};
  for (const Operation& operation : operations) {
    for (const DataType dtype :
         {DataType::kUint8, DataType::kInt32, DataType::kInt64, DataType::kFloat16,
          DataType::kBfloat16, DataType::kFloat32, DataType::kFloat64, DataType::kComplex64,
          DataType::kFloat8E4m3, DataType::kFloat8E5m2, DataType::kBool}) {
      const bool moves = !reduction_of(operation).has_value();
      if (!moves && dtype == DataType::kBool) continue;
      for (const std::int64_t rows : {1, 7}) check(engine, members, {operation, dtype, rows});
    }
    for (const std::int64_t rows : {0, 2, 400, 60'000}) {
      check(engine, members, {operation, DataType::kFloat32, rows});
    }
  }
}

TEST_P(OperationsWorld, GivesEachRankItsRows) {
  World world(GetParam());
  world.run([&](int rank, Engine& engine) { check_all(engine, all_ranks(engine, rank)); });
}

TEST_P(OperationsWorld, GivesEachRankOfASetItsRowsWhileAnotherSetWorks) {
  World world(GetParam());
  world.run([&](int rank, Engine& engine) {
    Members mine;
    for (int parity = 0; parity < std::min(2, world.size()); ++parity) {
      std::vector<int> ranks;
      for (int member = parity; member < world.size(); member += 2) ranks.push_back(member);
      // The set of all ranks is there already.
      const int set = world.size() == 1 ? 0 : engine.add_process_set(ranks, soon()).value();
      if (rank % 2 == parity) mine = {set, ranks, rank / 2};
    }
    check_all(engine, mine);
  });
}

TEST_P(OperationsWorld, WritesRowsIntoGivenMemoryWhereTheyFit) {
  World world(GetParam());
  world.run([](int rank, Engine& engine) {
    const int size = engine.world().size;
    for (const Operation& operation : {Operation(Alltoall{}), Operation(Allgather{}),
                                       Operation(Gather{0}), Operation(Scatter{0})}) {
      for (const std::size_t part : {1U, 500U, 70'000U}) {
        const std::size_t rows = part * static_cast<std::size_t>(size);
        const std::vector<float> in(rows, static_cast<float>(rank + 1));
        std::vector<float> out(rows * static_cast<std::size_t>(size));
        Request request;
        request.operation = operation;
        request.tensors.push_back(
            {.input = in.data(), .output = out.data(), .shape = {static_cast<std::int64_t>(rows)}});
        // Rank 1 gives too little, which is nobody else's business.
        request.tensors[0].output_bytes = rank == 1 ? 1 : out.size() * sizeof(float);
        const auto handle = engine.submit(request).value();
        ASSERT_TRUE(engine.wait(handle, soon()).is_ok()) << describe(operation);
        const GatherResult& result = *engine.gathered(handle, 0).value();
        const auto* got = reinterpret_cast<const float*>(result.begin());
        const auto count = static_cast<std::size_t>(result.shape[0]);
        if (count > 0) {
          EXPECT_EQ(got == out.data(), rank != 1) << describe(operation);
          const bool from_all = !std::holds_alternative<Scatter>(operation);
          EXPECT_EQ(got[0], 1.0F);
          EXPECT_EQ(got[count - 1], static_cast<float>(from_all ? size : 1));
        }
        engine.release(handle);
      }
    }
  });
}

TEST_P(OperationsWorld, ASingleElementIsOneRow) {
  World world(GetParam());
  world.run([](int rank, Engine& engine) {
    const int size = engine.world().size;
    for (const Operation& operation : {Operation(Alltoall{}), Operation(Reducescatter{}),
                                       Operation(Gather{0}), Operation(Allgather{})}) {
      float value = 1.0F;
      Request request;
      request.operation = operation;
      request.tensors.push_back({.input = &value, .shape = {}});
      // To the next rank: without splits one row cannot be shared out among several.
      if (std::holds_alternative<Alltoall>(operation)) {
        request.tensors[0].splits.assign(static_cast<std::size_t>(size), 0);
        request.tensors[0].splits[static_cast<std::size_t>((rank + 1) % size)] = 1;
      }
      const auto handle = engine.submit(request).value();
      const Status status = engine.wait(handle, soon());
      ASSERT_TRUE(status.is_ok()) << describe(operation) << ": " << status.message();
      const GatherResult& result = *engine.gathered(handle, 0).value();
      ASSERT_EQ(result.shape.size(), 1U) << describe(operation);
      const bool scatters = std::holds_alternative<Reducescatter>(operation);
      std::int64_t rows = std::holds_alternative<Alltoall>(operation) ? 1 : size;
      if (scatters || std::holds_alternative<Gather>(operation)) {
        rows = rank > 0 ? 0 : (scatters ? 1 : size);
      }
      EXPECT_EQ(result.shape[0], rows) << describe(operation);
      if (scatters && rank == 0) {
        float sum = 0;
        std::memcpy(&sum, result.data.get(), sizeof(sum));
        EXPECT_EQ(sum, static_cast<float>(size));
      }
      engine.release(handle);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, OperationsWorld,
                         testing::Values(std::vector<int>{1}, std::vector<int>{3},
                                         std::vector<int>{2, 2}, std::vector<int>{3, 2},
                                         std::vector<int>{1, 1, 1}, std::vector<int>{2, 1, 1, 1}));

/// Rank `dead` ends without shutdown, in the middle of one operation after another.
void lose(const std::vector<int>& node_sizes, int dead, const Operation& operation) {
  World world(node_sizes);
  world.run([&](int rank, Engine& engine) {
    const Case test{operation, DataType::kFloat32, 100'000};
    const Members members = all_ranks(engine, rank);
    std::vector<std::unique_ptr<Run>> runs;  // memory is lent until the engine has ended
    for (int step = 0;; ++step) {
      runs.push_back(std::make_unique<Run>(Run{test, members, {}, {}}));
      Request request = runs.back()->request();
      if (rank == dead && step == 2) {
        EXPECT_TRUE(engine.submit(std::move(request)).is_ok());
        world.kill(dead);
        return;
      }
      const Status status = run_request(engine, std::move(request));
      if (status.is_ok()) continue;
      EXPECT_EQ(status.code(), Code::kPeerLost) << describe(operation) << status.message();
      EXPECT_THAT(status.message(), HasSubstr("rank " + std::to_string(dead) + " "));
      return;
    }
  });
}

TEST(OperationsLoss, OfAPeerIsAnErrorInEveryOperation) {
  for (const Operation& operation :
       {Operation(Reducescatter{}), Operation(Reduce{0}), Operation(Alltoall{}),
        Operation(Gather{0}), Operation(Scatter{1})}) {
    SCOPED_TRACE(describe(operation));
    lose({1, 1, 1}, 1, operation);
    lose({2, 1}, 2, operation);
  }
}

}  // namespace
}  // namespace hvd
