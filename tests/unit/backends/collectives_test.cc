// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <complex>
#include <cstring>
#include <map>

#include "backends/shm/shm_backend.h"
#include "backends/tcp/tcp_backend.h"
#include "base/mutex.h"
#include "collective/reduce.h"
#include "collective/wire_cast.h"
#include "thread_ranks.h"

namespace hvd {
namespace {

struct CollectiveShape {
  const BackendEntry* entry;
  std::vector<int> nodes;
};

std::vector<CollectiveShape> collective_shapes() {
  return {{&kShmBackend, {1}},          {&kShmBackend, {2}},         {&kShmBackend, {3}},
          {&kShmBackend, {4}},          {&kTcpBackend, {2, 2}},      {&kTcpBackend, {2, 1, 1}},
          {&kTcpBackend, {1, 1, 1, 1}}, {&kTcpBackend, {2, 3, 2, 2}}};
}

using Buffer = std::vector<std::byte>;

/// A cheap random sequence: the tests draw millions of numbers.
class Sequence {
 public:
  explicit Sequence(int rank) : state_(static_cast<std::uint64_t>(rank) * 7919 + 13) {}
  std::uint32_t operator()() {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::uint32_t>(state_ >> 33);
  }

 private:
  std::uint64_t state_;
};

/// Values that are small in every type, so that sums are exact nowhere but in the integers.
Buffer make_input(DataType dtype, std::size_t count, int rank) {
  Sequence random(rank);
  Buffer bytes(count * size_of(dtype));
  for (std::size_t i = 0; i < count; ++i) {
    std::byte* at = bytes.data() + i * size_of(dtype);
    if (dtype == DataType::kFloat32) {
      const float value = static_cast<float>(random()) / 1e9F - 1.0F;
      std::memcpy(at, &value, sizeof(value));
    } else if (dtype == DataType::kFloat64) {
      const double value = static_cast<double>(random()) / 1e9 - 1.0;
      std::memcpy(at, &value, sizeof(value));
    } else if (dtype == DataType::kFloat16 || dtype == DataType::kBfloat16) {
      // Exponents near one, any mantissa and sign.
      const unsigned one = dtype == DataType::kFloat16 ? 0x3c00U : 0x3f80U;
      const auto value = static_cast<std::uint16_t>(one ^ (random() & 0x81ffU));
      std::memcpy(at, &value, sizeof(value));
    } else if (dtype == DataType::kComplex64 || dtype == DataType::kComplex128) {
      const double part = static_cast<double>(random()) / 1e9 - 1.0;
      const std::complex<float> single(static_cast<float>(part), 0.5F);
      const std::complex<double> twice(-0.25, part);
      std::memcpy(at, dtype == DataType::kComplex64 ? static_cast<const void*>(&single) : &twice,
                  size_of(dtype));
    } else {
      const std::uint64_t value = dtype == DataType::kBool ? random() % 3 % 2 : random() % 120;
      std::memcpy(at, &value, size_of(dtype));
    }
  }
  return bytes;
}

/// The documented association: ranks in order within a node, then a tree over the nodes that
/// splits at the largest power of two below the number of nodes.
Buffer fold_nodes(const Reduction& reduction, const std::vector<Buffer>& partials, std::size_t lo,
                  std::size_t hi, std::size_t count) {
  if (hi - lo == 1) return partials[lo];
  std::size_t half = 1;
  while (half * 2 < hi - lo) half *= 2;
  const Buffer left = fold_nodes(reduction, partials, lo, lo + half, count);
  const Buffer right = fold_nodes(reduction, partials, lo + half, hi, count);
  Buffer sum(left.size());
  const void* const sources[] = {left.data(), right.data()};
  reduce_into(reduction, ReduceStage::kCombine, sum.data(), sources, count);
  return sum;
}

/// What a rank puts in: its tensor, or what travels in its place.
Buffer travelling_input(const WireCast& cast, std::size_t count, int rank) {
  Buffer input = make_input(cast.element, count, rank);
  if (!cast.is_cast()) return input;
  Buffer wire(count * size_of(cast.wire));
  cast.narrow(wire.data(), input.data(), count);
  return wire;
}

Buffer expected_allreduce(const Communicator& communicator, const Allreduce& operation,
                          DataType dtype, std::size_t count) {
  const auto reduction = Reduction::of(operation, dtype, communicator.size);
  const WireCast cast = WireCast::of(operation, dtype);
  std::vector<Buffer> partials;
  for (const std::vector<int>& node : communicator.nodes) {
    std::vector<Buffer> inputs;
    for (const int rank : node) inputs.push_back(travelling_input(cast, count, rank));
    std::vector<const void*> sources;
    for (const Buffer& input : inputs) sources.push_back(input.data());
    partials.emplace_back(count * reduction.partial_bytes());
    // What stays in one node is rounded once.
    const bool whole = communicator.nodes.size() == 1;
    reduce_into(reduction, whole ? ReduceStage::kWhole : ReduceStage::kPartial,
                partials.back().data(), sources, count);
  }
  Buffer result = partials[0];
  result.resize(count * reduction.element_bytes());
  if (partials.size() > 1) {
    if (!cast.is_cast()) partials = {fold_nodes(reduction, partials, 0, partials.size(), count)};
    std::vector<const void*> sources;
    for (const Buffer& partial : partials) sources.push_back(partial.data());
    reduce_into(reduction, ReduceStage::kFinish, result.data(), sources, count);
  }
  if (!cast.is_cast()) return result;
  Buffer elements(count * size_of(dtype));
  cast.widen(elements.data(), result.data(), count);
  return elements;
}

/// The expected results of one run, computed by the first rank that asks. Thread-safe.
class Expectations {
 public:
  const Buffer& allreduce(const Communicator& communicator, const Allreduce& operation,
                          DataType dtype, std::size_t count) HVD_EXCLUDES(mutex_) {
    const Lock lock(mutex_);
    const std::string key =
        describe(operation) + std::string(name_of(dtype)) + std::to_string(count);
    const auto [place, is_new] = results_.try_emplace(key);
    if (is_new) {
      place->second = expected_allreduce(communicator, operation, dtype, count);
    }
    return place->second;
  }

 private:
  Mutex mutex_;
  std::map<std::string, Buffer> results_ HVD_GUARDED_BY(mutex_);
};

/// Cuts `count` elements into segments, some of them empty.
std::vector<std::size_t> segment_counts(std::size_t count, int pieces) {
  std::vector<std::size_t> counts;
  for (int i = 0; i + 1 < pieces; ++i) {
    const std::size_t part = i % 2 == 0 ? 0 : count / 3;
    counts.push_back(part);
    count -= part;
  }
  counts.push_back(count);
  return counts;
}

struct AllreduceCase {
  Allreduce operation;
  DataType dtype = DataType::kFloat32;
  std::size_t count = 0;
  int pieces = 1;
  bool in_place = true;
};

void check_allreduce(ThreadRank& rank, Expectations& expectations, const AllreduceCase& test) {
  const std::size_t element = size_of(test.dtype);
  Buffer input = make_input(test.dtype, test.count, rank.communicator.rank);
  const Buffer original = input;
  Buffer other(test.in_place ? 0 : input.size());
  Buffer& output = test.in_place ? input : other;
  Batch batch{.operation = test.operation,
              .dtype = test.dtype,
              .device = {},
              .segments = {},
              .allocate = {}};
  std::size_t offset = 0;
  for (const std::size_t count : segment_counts(test.count, test.pieces)) {
    batch.segments.push_back(
        {.input = input.data() + offset, .output = output.data() + offset, .count = count});
    offset += count * element;
  }
  run_batch(rank, std::move(batch));
  const Buffer& expected =
      expectations.allreduce(rank.communicator, test.operation, test.dtype, test.count);
  EXPECT_TRUE(output == expected) << describe(test.operation) << " of " << test.count << " "
                                  << name_of(test.dtype) << " in place " << test.in_place
                                  << " pieces " << test.pieces;
  if (!test.in_place) {
    EXPECT_TRUE(input == original);
  }
}

TEST(Collectives, AllreduceGivesTheDocumentedBitsForEveryTypeAndOperation) {
  const std::vector<Allreduce> operations = {
      {.op = ReduceOp::kSum},
      {.op = ReduceOp::kAverage},
      {.op = ReduceOp::kMin},
      {.op = ReduceOp::kMax},
      {.op = ReduceOp::kProduct},
      {.op = ReduceOp::kBitAnd},
      {.op = ReduceOp::kBitOr},
      {.op = ReduceOp::kBitXor},
      {.op = ReduceOp::kSum, .prescale = 0.3, .postscale = 1.7},
      {.op = ReduceOp::kAverage, .prescale = 1.0, .postscale = 0.5}};
  for (const CollectiveShape& shape : collective_shapes()) {
    SCOPED_TRACE(shape_text(shape.nodes));
    Expectations expectations;
    run_ranks(*shape.entry, shape.nodes, [&](ThreadRank& rank) {
      for (const Allreduce& operation : operations) {
        for (int type = 0; type < kDataTypeCount; ++type) {
          const auto dtype = static_cast<DataType>(type);
          if (!rank.backend->supports(operation, dtype, {}).is_ok()) continue;
          for (const std::size_t count : {std::size_t{3}, std::size_t{6'001}}) {
            check_allreduce(rank, expectations, {operation, dtype, count, 4, true});
            check_allreduce(rank, expectations, {operation, dtype, count, 1, false});
          }
        }
      }
    });
  }
}

TEST(Collectives, AllreduceTravelsAsAHalfType) {
  const std::size_t slot = std::size_t{128} << 10;
  const std::vector<Allreduce> operations = {
      {.op = ReduceOp::kSum, .wire = Wire::kFloat16},
      {.op = ReduceOp::kAverage, .prescale = 0.3, .postscale = 1.7, .wire = Wire::kBfloat16},
      {.op = ReduceOp::kMax, .wire = Wire::kFloat16}};
  for (const CollectiveShape& shape : collective_shapes()) {
    SCOPED_TRACE(shape_text(shape.nodes));
    Expectations expectations;
    run_ranks(*shape.entry, shape.nodes, [&](ThreadRank& rank) {
      for (const Allreduce& operation : operations) {
        for (const DataType dtype : {DataType::kFloat32, DataType::kFloat64}) {
          for (const std::size_t bytes : {std::size_t{2}, std::size_t{4080}, 3 * slot + 18}) {
            const std::size_t count = bytes / 2;
            check_allreduce(rank, expectations,
                            {operation, dtype, count, 5, dtype == DataType::kFloat32});
          }
        }
      }
    });
  }
}

TEST(Collectives, AllreduceGivesTheDocumentedBitsForEverySize) {
  const std::size_t slot = std::size_t{128} << 10;
  for (const CollectiveShape& shape : collective_shapes()) {
    SCOPED_TRACE(shape_text(shape.nodes));
    Expectations expectations;
    run_ranks(*shape.entry, shape.nodes, [&](ThreadRank& rank) {
      for (const DataType dtype : {DataType::kFloat32, DataType::kBfloat16}) {
        for (const std::size_t bytes :
             {std::size_t{0}, std::size_t{4}, std::size_t{60}, std::size_t{4080}, std::size_t{4084},
              slot / 2 - 4, slot / 2, slot / 2 + 4, slot - 4, slot, slot + 4, 5 * slot + 36}) {
          const std::size_t count = bytes / size_of(dtype);
          check_allreduce(rank, expectations, {{.op = ReduceOp::kSum}, dtype, count, 1, true});
          check_allreduce(rank, expectations, {{.op = ReduceOp::kSum}, dtype, count, 7, true});
          check_allreduce(rank, expectations, {{.op = ReduceOp::kAverage}, dtype, count, 5, false});
        }
      }
    });
  }
}

TEST(Collectives, BroadcastCopiesTheRootsBytes) {
  std::vector<CollectiveShape> shapes = collective_shapes();
  shapes.push_back({&kTcpBackend, std::vector<int>(9, 1)});  // enough for a binomial tree
  for (const CollectiveShape& shape : shapes) {
    SCOPED_TRACE(shape_text(shape.nodes));
    run_ranks(*shape.entry, shape.nodes, [&](ThreadRank& rank) {
      for (int root = 0; root < rank.communicator.size; ++root) {
        for (const std::size_t count : {0, 1, 1021, 180'003}) {
          const bool is_root = rank.communicator.rank == root;
          Buffer data = make_input(DataType::kFloat32, count, rank.communicator.rank);
          Buffer apart(is_root && root % 2 == 1 ? data.size() : 0);
          Buffer& output = apart.empty() ? data : apart;
          const std::size_t head = count / 3;
          run_batch(rank,
                    {.operation = Broadcast{root},
                     .dtype = DataType::kFloat32,
                     .device = {},
                     .segments = {{data.data(), output.data(), head},
                                  {data.data() + head * 4, output.data() + head * 4, count - head}},
                     .allocate = {}});
          EXPECT_TRUE(output == make_input(DataType::kFloat32, count, root)) << count;
        }
      }
    });
  }
}

std::size_t uneven(std::size_t segment, int rank, std::size_t scale) {
  return (static_cast<std::size_t>(rank) + segment) % 3 * scale;
}

TEST(Collectives, AllgatherConcatenatesUnevenParts) {
  for (const CollectiveShape& shape : collective_shapes()) {
    SCOPED_TRACE(shape_text(shape.nodes));
    run_ranks(*shape.entry, shape.nodes, [&](ThreadRank& rank) {
      for (const std::size_t scale : {0, 1, 777, 70'003}) {
        std::vector<Buffer> inputs;
        std::vector<Buffer> gathered(3);
        Batch batch{.operation = Allgather{},
                    .dtype = DataType::kInt16,
                    .device = {},
                    .segments = {},
                    .allocate = {}};
        for (std::size_t i = 0; i < 3; ++i) {
          const std::size_t count = uneven(i, rank.communicator.rank, scale);
          inputs.push_back(make_input(DataType::kInt16, count, rank.communicator.rank));
          batch.segments.push_back({inputs[i].data(), nullptr, count});
        }
        batch.allocate = [&](std::size_t segment,
                             std::span<const std::size_t> counts) -> Result<void*> {
          std::size_t sum = 0;
          for (const std::size_t count : counts) sum += count;
          gathered[segment].resize(sum * 2);
          return sum == 0 ? nullptr : static_cast<void*>(gathered[segment].data());
        };
        run_batch(rank, std::move(batch));
        for (std::size_t i = 0; i < 3; ++i) {
          Buffer expected;
          for (int r = 0; r < rank.communicator.size; ++r) {
            const Buffer part = make_input(DataType::kInt16, uneven(i, r, scale), r);
            expected.insert(expected.end(), part.begin(), part.end());
          }
          EXPECT_TRUE(gathered[i] == expected) << "segment " << i << " scale " << scale;
        }
      }
    });
  }
}

TEST(Collectives, QueuedTasksRunInTheirOrder) {
  for (const CollectiveShape& shape : collective_shapes()) {
    SCOPED_TRACE(shape_text(shape.nodes));
    run_ranks(*shape.entry, shape.nodes, [&](ThreadRank& rank) {
      const std::vector<std::size_t> counts = {1, 300'000, 5, 0, 70'000, 2};
      std::vector<Buffer> buffers;
      std::vector<std::unique_ptr<Task>> tasks;
      for (const std::size_t count : counts) {
        buffers.push_back(make_input(DataType::kFloat32, count, rank.communicator.rank));
        auto task = rank.backend->start(
            {.operation = Allreduce{.op = ReduceOp::kSum},
             .dtype = DataType::kFloat32,
             .device = {},
             .segments = {{buffers.back().data(), buffers.back().data(), count}},
             .allocate = {}});
        ASSERT_TRUE(task.is_ok());
        tasks.push_back(std::move(task).value());
      }
      finish(tasks);
      for (std::size_t i = 0; i < counts.size(); ++i) {
        EXPECT_TRUE(buffers[i] ==
                    expected_allreduce(rank.communicator, {}, DataType::kFloat32, counts[i]));
      }
    });
  }
}

TEST(Collectives, AnAbandonedTaskEndsTheBackendInPeace) {
  for (const CollectiveShape& shape : collective_shapes()) {
    if (shape.nodes == std::vector<int>{1}) continue;
    run_ranks(*shape.entry, shape.nodes, [&](ThreadRank& rank) {
      std::vector<float> data(500'000);
      const auto batch = [&] {
        return Batch{.operation = Allreduce{},
                     .dtype = DataType::kFloat32,
                     .device = {},
                     .segments = {{data.data(), data.data(), data.size()}},
                     .allocate = {}};
      };
      {
        auto task = rank.backend->start(batch());
        ASSERT_TRUE(task.is_ok());
        EXPECT_NE(task.value()->advance(), Progress::kDone);
      }
      EXPECT_EQ(rank.backend->start(batch()).status().code(), Code::kAborted);
    });
  }
}

}  // namespace
}  // namespace hvd
