// SPDX-License-Identifier: Apache-2.0
// Alltoall, gather, scatter, reduce and reducescatter of each backend, against what each rank must
// get; the reducing ones bit by bit against the allreduce of the same backend.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "backends/shm/shm_backend.h"
#include "backends/tcp/tcp_backend.h"
#include "thread_ranks.h"

namespace hvd {
namespace {

struct OperationShape {
  const BackendEntry* entry;
  std::vector<int> nodes;
};

std::vector<OperationShape> operation_shapes() {
  return {{&kShmBackend, {1}},      {&kShmBackend, {2}},    {&kShmBackend, {5}},
          {&kTcpBackend, {2, 2}},   {&kTcpBackend, {3, 1}}, {&kTcpBackend, {1, 1, 1}},
          {&kTcpBackend, {2, 3, 2}}};
}

using Words = std::vector<std::uint32_t>;

/// Results of a batch: the memory that the library would make.
struct Results {
  std::vector<Words> words;
  std::vector<std::vector<std::size_t>> counts;
};

Batch batch_of(const Operation& operation, std::size_t segments, Results& results) {
  results.words.assign(segments, {});
  results.counts.assign(segments, {});
  Batch batch;
  batch.operation = operation;
  batch.dtype = DataType::kUint32;
  batch.allocate = [&results](std::size_t segment,
                              std::span<const std::size_t> counts) -> Result<void*> {
    std::size_t total = 0;
    for (const std::size_t count : counts) total += count;
    results.counts[segment].assign(counts.begin(), counts.end());
    results.words[segment].assign(total, 0xdeadbeef);
    return total == 0 ? nullptr : static_cast<void*>(results.words[segment].data());
  };
  return batch;
}

std::uint32_t word(int source, int destination, std::size_t segment, std::size_t index) {
  return static_cast<std::uint32_t>(source * 1'000'003 + destination * 10'007 +
                                    static_cast<int>(segment) * 101) +
         static_cast<std::uint32_t>(index) * 7;
}

/// Elements that `source` sends to `destination`: uneven, zero for some, large where `scale` is.
std::size_t count_of(int source, int destination, std::size_t segment, std::size_t scale) {
  return static_cast<std::size_t>((source * 3 + destination * 5 + static_cast<int>(segment)) % 4) *
         scale;
}

/// One alltoall, gather or scatter of two tensors, and what must come of it.
void check_moving(ThreadRank& rank, const Operation& operation, std::size_t scale) {
  const int size = rank.communicator.size;
  const int mine = rank.communicator.rank;
  const auto root = root_of(operation);
  const bool scatters = std::holds_alternative<Scatter>(operation);
  const auto sends = [&](int source, int destination, std::size_t segment) -> std::size_t {
    if (scatters && source != *root) return 0;
    if (std::holds_alternative<Gather>(operation) && destination != *root) return 0;
    return count_of(source, destination, segment, scale);
  };
  Results results;
  Batch batch = batch_of(operation, 2, results);
  std::vector<Words> inputs(2);
  for (std::size_t segment = 0; segment < 2; ++segment) {
    for (int to = 0; to < size; ++to) {
      const std::size_t count = sends(mine, to, segment);
      for (std::size_t i = 0; i < count; ++i) {
        inputs[segment].push_back(word(mine, to, segment, i));
      }
      if (kind_of(operation).has_splits) batch.splits.push_back(count);
    }
    const std::size_t count = inputs[segment].size();
    inputs[segment].resize(count + 5);  // rows that stay where they are, where there are splits
    batch.segments.push_back(
        {inputs[segment].data(), nullptr, kind_of(operation).has_splits ? count + 5 : count, 1});
  }
  run_batch(rank, std::move(batch));
  for (std::size_t segment = 0; segment < 2; ++segment) {
    Words expected;
    std::vector<std::size_t> counts;
    for (int from = 0; from < size; ++from) {
      counts.push_back(sends(from, mine, segment));
      for (std::size_t i = 0; i < counts.back(); ++i) {
        expected.push_back(word(from, mine, segment, i));
      }
    }
    EXPECT_EQ(results.counts[segment], counts) << describe(operation) << " rank " << mine;
    EXPECT_TRUE(results.words[segment] == expected)
        << describe(operation) << " rank " << mine << " scale " << scale << " segment " << segment;
  }
}

TEST(Operations, RowsComeToWhomTheyAreSent) {
  for (const OperationShape& shape : operation_shapes()) {
    SCOPED_TRACE(shape_text(shape.nodes));
    run_ranks(*shape.entry, shape.nodes, [&](ThreadRank& rank) {
      const int last = rank.communicator.size - 1;
      for (const std::size_t scale : {0, 1, 50, 25'001}) {
        check_moving(rank, Alltoall{}, scale);
        for (const int root : {0, last}) {
          check_moving(rank, Gather{root}, scale);
          check_moving(rank, Scatter{root}, scale);
        }
      }
    });
  }
}

Words inputs_of(int rank, std::size_t count) {
  Words words(count);
  for (std::size_t i = 0; i < count; ++i) words[i] = word(rank, 0, 0, i);
  return words;
}

Words allreduced(ThreadRank& rank, std::size_t count, DataType dtype, const Allreduce& reduction) {
  Words words = inputs_of(rank.communicator.rank, count);
  Batch batch;
  batch.operation = reduction;
  batch.dtype = dtype;
  batch.segments = {{words.data(), words.data(), count * 4 / size_of(dtype)}};
  run_batch(rank, std::move(batch));
  return words;
}

const Allreduce kReductions[] = {{ReduceOp::kSum, 1, 1}, {ReduceOp::kAverage, 0.5, 3}};

TEST(Operations, ReduceGivesTheRootTheBitsOfTheAllreduce) {
  for (const OperationShape& shape : operation_shapes()) {
    SCOPED_TRACE(shape_text(shape.nodes));
    run_ranks(*shape.entry, shape.nodes, [&](ThreadRank& rank) {
      const int mine = rank.communicator.rank;
      for (const std::size_t count : {0, 1, 900, 300'001}) {
        for (const Allreduce& op : kReductions) {
          const int root = rank.communicator.size - 1;
          const Words expected = allreduced(rank, count, DataType::kBfloat16, op);
          Words input = inputs_of(mine, count);
          const Words original = input;
          Words output(mine == root ? count : 0);
          Batch batch;
          batch.operation = Reduce{root, op.op, op.prescale, op.postscale};
          batch.dtype = DataType::kBfloat16;
          // The output of ranks that are not the root is ignored.
          batch.segments = {{input.data(), mine == root ? output.data() : input.data(), count * 2}};
          run_batch(rank, std::move(batch));
          if (mine == root) {
            EXPECT_TRUE(output == expected) << count;
          }
          EXPECT_TRUE(input == original) << count;
        }
      }
    });
  }
}

/// Two tensors, the second with output in place of this rank's share.
void check_reducescatter(ThreadRank& rank, std::size_t rows, std::size_t row_count,
                         const Allreduce& op) {
  const auto size = static_cast<std::size_t>(rank.communicator.size);
  const auto mine = static_cast<std::size_t>(rank.communicator.rank);
  const std::size_t count = rows * row_count;
  const std::size_t begin = first_row_of(rows, size, mine) * row_count;
  const std::size_t end = first_row_of(rows, size, mine + 1) * row_count;
  const Words all = allreduced(rank, count, DataType::kFloat32, op);
  const Words expected(all.begin() + static_cast<std::ptrdiff_t>(begin),
                       all.begin() + static_cast<std::ptrdiff_t>(end));
  Results results;
  Batch batch = batch_of(Reducescatter{op.op, op.prescale, op.postscale}, 2, results);
  batch.dtype = DataType::kFloat32;
  Words first = inputs_of(rank.communicator.rank, count);
  Words second = first;
  batch.segments = {{first.data(), nullptr, count, row_count},
                    {second.data(), second.data() + begin, count, row_count}};
  run_batch(rank, std::move(batch));
  EXPECT_EQ(results.counts[0], (std::vector<std::size_t>{end - begin}));
  EXPECT_TRUE(results.words[0] == expected) << rows << " rows of " << row_count;
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), second.data() + begin))
      << rows << " rows of " << row_count << " in place";
}

TEST(Operations, ReducescatterGivesEachRankItsShareOfTheAllreduce) {
  for (const OperationShape& shape : operation_shapes()) {
    SCOPED_TRACE(shape_text(shape.nodes));
    run_ranks(*shape.entry, shape.nodes, [&](ThreadRank& rank) {
      for (const Allreduce& op : kReductions) {
        for (const std::size_t rows : {0, 1, 3, 8, 101}) {
          check_reducescatter(rank, rows, 3, op);
          check_reducescatter(rank, rows, 5'003, op);
        }
      }
    });
  }
}

}  // namespace
}  // namespace hvd
