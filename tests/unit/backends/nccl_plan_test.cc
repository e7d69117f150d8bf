// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/nccl_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <numeric>

namespace hvd {
namespace {

using Where = NcclPlace::Where;

/// NCCL for float32 and bytes, by the book: all ranks in one place, one call after the other.
class World {
 public:
  /// counts[rank][segment] of the inputs.
  World(const Operation& operation, std::vector<std::vector<std::size_t>> counts,
        std::size_t output_count, std::size_t pack_bytes)
      : size_(counts.size()) {
    options_.pack_bytes = pack_bytes;
    for (std::size_t rank = 0; rank < size_; ++rank) {
      Rank& one = ranks_.emplace_back();
      one.batch.operation = operation;
      one.batch.dtype = DataType::kFloat32;
      for (std::size_t i = 0; i < counts[rank].size(); ++i) {
        one.batch.segments.push_back({nullptr, nullptr, counts[rank][i], 1});
        auto& input = one.inputs.emplace_back(counts[rank][i]);
        for (std::size_t k = 0; k < input.size(); ++k) input[k] = value(rank, i, k);
        one.outputs.emplace_back(output_count, -1.0F);
      }
    }
  }

  static float value(std::size_t rank, std::size_t segment, std::size_t index) {
    return static_cast<float>(rank * 100 + segment * 10 + index % 7);
  }
  Batch& batch(std::size_t rank) { return ranks_[rank].batch; }
  const NcclPlan& plan(std::size_t rank) const { return ranks_[rank].plan; }
  const std::vector<float>& output(std::size_t rank, std::size_t segment) const {
    return ranks_[rank].outputs[segment];
  }

  void run() {
    for (std::size_t rank = 0; rank < size_; ++rank) make_plan(rank);
    for (Rank& rank : ranks_) pack(rank);
    run_steps();
    for (Rank& rank : ranks_) unpack(rank);
  }

 private:
  struct Rank {
    Batch batch;
    NcclPlan plan;
    std::vector<std::vector<float>> inputs;
    std::vector<std::vector<float>> outputs;
    std::vector<float> bucket;
    std::vector<float> spare;
    std::size_t step = 0;
  };

  void make_plan(std::size_t me) {
    Communicator communicator;
    communicator.rank = static_cast<int>(me);
    communicator.size = static_cast<int>(size_);
    MovingCounts counts(ranks_[me].batch, communicator);
    for (std::size_t rank = 0; rank < size_; ++rank) {
      Communicator other = communicator;
      other.rank = static_cast<int>(rank);
      MovingCounts theirs(ranks_[rank].batch, other);
      std::copy_n(theirs.row(rank), counts.row_length(), counts.row(rank));
    }
    Rank& rank = ranks_[me];
    rank.plan = plan_nccl(rank.batch, communicator, &counts, options_);
    rank.bucket.assign(rank.plan.bucket_bytes / sizeof(float), 1e30F);
    rank.spare.assign(rank.plan.spare_bytes / sizeof(float), 1e30F);
  }

  static void pack(Rank& rank) {
    for (const NcclPiece& piece : rank.plan.packed) {
      for (std::size_t k = 0; k < piece.count; ++k) {
        rank.bucket[piece.offset / sizeof(float) + k] =
            rank.inputs[piece.segment][k] * static_cast<float>(rank.plan.pack.scale);
      }
    }
    ASSERT_EQ(rank.plan.fill_op, ReduceOp::kSum);
    for (const NcclPiece& piece : rank.plan.filled) {
      std::fill_n(rank.bucket.begin() + static_cast<std::ptrdiff_t>(piece.offset / sizeof(float)),
                  piece.count, 0.0F);
    }
    for (const NcclPiece& piece : rank.plan.filled_spare) {
      std::fill_n(rank.spare.begin() + static_cast<std::ptrdiff_t>(piece.offset / sizeof(float)),
                  piece.count, 0.0F);
    }
  }

  static void unpack(Rank& rank) {
    for (const NcclPiece& piece : rank.plan.unpacked) {
      for (std::size_t k = 0; k < piece.count; ++k) {
        rank.outputs[piece.segment][k] = rank.bucket[piece.offset / sizeof(float) + k] *
                                         static_cast<float>(rank.plan.unpack.scale);
      }
    }
    for (const NcclPiece& piece : rank.plan.scaled) {
      for (std::size_t k = 0; k < piece.count; ++k) {
        rank.outputs[piece.segment][k] *= static_cast<float>(rank.plan.scale);
      }
    }
  }

  static float* address(Rank& rank, const NcclPlace& place) {
    std::vector<float>& memory = place.where == Where::kBucket  ? rank.bucket
                                 : place.where == Where::kSpare ? rank.spare
                                 : place.where == Where::kInput ? rank.inputs[place.segment]
                                                                : rank.outputs[place.segment];
    EXPECT_LE(place.offset / sizeof(float), memory.size());
    return memory.data() + place.offset / sizeof(float);
  }

  void run_steps() {
    std::map<std::pair<int, int>, std::deque<std::vector<float>>> wires;
    for (std::size_t me = 0; me < size_; ++me) {
      for (const NcclStep& step : ranks_[me].plan.steps) {
        if (step.verb != NcclVerb::kSend) continue;
        const float* from = address(ranks_[me], step.from);
        wires[{static_cast<int>(me), step.peer}].emplace_back(from, from + floats(step));
      }
    }
    for (std::size_t me = 0; me < size_; ++me) {
      for (const NcclStep& step : ranks_[me].plan.steps) {
        if (step.verb != NcclVerb::kRecv) continue;
        auto& wire = wires[{step.peer, static_cast<int>(me)}];
        ASSERT_FALSE(wire.empty());
        ASSERT_EQ(wire.front().size(), floats(step));
        std::copy(wire.front().begin(), wire.front().end(), address(ranks_[me], step.to));
        wire.pop_front();
      }
    }
    for (const auto& [pair, wire] : wires) EXPECT_TRUE(wire.empty());
    run_collectives();
  }

  static std::size_t floats(const NcclStep& step) {
    return step.dtype == DataType::kUint8 ? step.count / sizeof(float) : step.count;
  }

  void run_collectives() {
    const auto is_collective = [](const NcclStep& step) {
      return step.verb != NcclVerb::kSend && step.verb != NcclVerb::kRecv;
    };
    for (std::size_t s = 0; s < ranks_[0].plan.steps.size(); ++s) {
      const NcclStep& first = ranks_[0].plan.steps[s];
      if (!is_collective(first)) return;
      for (Rank& rank : ranks_) {
        ASSERT_LT(s, rank.plan.steps.size());
        const NcclStep& step = rank.plan.steps[s];
        ASSERT_TRUE(step.verb == first.verb && step.dtype == first.dtype &&
                    step.fold == first.fold && step.count == first.count &&
                    step.peer == first.peer);
      }
      run_collective(s, first);
    }
  }

  void run_collective(std::size_t s, const NcclStep& first) {
    const std::size_t n = floats(first);
    const auto step = [&](std::size_t rank) -> const NcclStep& {
      return ranks_[rank].plan.steps[s];
    };
    const auto root = static_cast<std::size_t>(first.peer);
    if (first.verb == NcclVerb::kBroadcast || first.verb == NcclVerb::kAllGather) {
      std::vector<float> data;
      for (std::size_t rank = 0; rank < size_; ++rank) {
        if (first.verb == NcclVerb::kBroadcast && rank != root) continue;
        const float* from = address(ranks_[rank], step(rank).from);
        data.insert(data.end(), from, from + n);
      }
      for (std::size_t rank = 0; rank < size_; ++rank) {
        std::copy(data.begin(), data.end(), address(ranks_[rank], step(rank).to));
      }
      return;
    }
    const std::size_t whole = first.verb == NcclVerb::kReduceScatter ? n * size_ : n;
    std::vector<float> sum(whole);
    for (std::size_t rank = 0; rank < size_; ++rank) {
      const float* from = address(ranks_[rank], step(rank).from);
      const auto factor =
          static_cast<float>(first.fold == NcclFold::kPreMulSum ? ranks_[rank].plan.premul : 1.0);
      for (std::size_t k = 0; k < whole; ++k) {
        sum[k] = first.fold == NcclFold::kMax && rank > 0 ? std::max(sum[k], from[k])
                 : first.fold == NcclFold::kMax           ? from[k]
                                                          : sum[k] + from[k] * factor;
      }
    }
    for (std::size_t rank = 0; rank < size_; ++rank) {
      if (first.verb == NcclVerb::kReduce && rank != root) continue;
      const std::size_t begin = first.verb == NcclVerb::kReduceScatter ? rank * n : 0;
      std::copy_n(sum.begin() + static_cast<std::ptrdiff_t>(begin), n,
                  address(ranks_[rank], step(rank).to));
    }
  }

  std::size_t size_;
  NcclPlanOptions options_;
  std::vector<Rank> ranks_;
};

float sum_of_ranks(std::size_t ranks, std::size_t segment, std::size_t index) {
  float sum = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) sum += World::value(rank, segment, index);
  return sum;
}

constexpr std::size_t kRanks = 3;
// Small, empty, above the limit for packing (64 bytes), small.
const std::vector<std::size_t> kTensorCounts = {3, 0, 40, 5};

TEST(NcclPlan, AllreducesPackedAndLargeTensors) {
  for (const double prescale : {1.0, 2.0}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMax}) {
      World world(Allreduce{.op = op, .prescale = prescale, .postscale = 0.5},
                  {kRanks, kTensorCounts}, 40, 64);
      world.run();
      for (std::size_t i = 0; i < kTensorCounts.size(); ++i) {
        for (std::size_t k = 0; k < kTensorCounts[i]; ++k) {
          const auto scale = static_cast<float>(prescale * 0.5);
          float expected = sum_of_ranks(kRanks, i, k) * scale;
          if (op == ReduceOp::kAverage) expected /= kRanks;
          if (op == ReduceOp::kMax) expected = World::value(kRanks - 1, i, k) * scale;
          EXPECT_NEAR(world.output(1, i)[k], expected, 1e-4) << i << " " << k;
        }
      }
    }
  }
}

TEST(NcclPlan, PutsSmallTensorsIntoOneCallAndLeavesLargeOnesInPlace) {
  World world(Allreduce{}, {kRanks, kTensorCounts}, 40, 64);
  world.run();
  const NcclPlan& plan = world.plan(0);
  ASSERT_EQ(plan.packed.size(), 2U);
  EXPECT_EQ(plan.packed[1].offset, kSlotBytes);
  EXPECT_EQ(plan.bucket_bytes, 2 * kSlotBytes);
  ASSERT_EQ(plan.steps.size(), 2U);
  EXPECT_EQ(plan.steps[0].from.where, Where::kBucket);
  EXPECT_EQ(plan.steps[1].from.where, Where::kInput);
  EXPECT_EQ(plan.steps[1].to.where, Where::kOutput);
}

TEST(NcclPlan, PacksNoTensorThatIsAlone) {
  World world(Allreduce{}, {kRanks, {5}}, 40, 64);
  world.run();
  EXPECT_EQ(world.plan(0).bucket_bytes, 0U);
  EXPECT_TRUE(world.plan(0).packed.empty());
}

TEST(NcclPlan, FoldsAScaleIntoTheSumOfALargeTensor) {
  World world(Allreduce{.op = ReduceOp::kAverage, .prescale = 6.0}, {kRanks, {40}}, 40, 64);
  world.run();
  EXPECT_EQ(world.plan(0).steps.at(0).fold, NcclFold::kPreMulSum);
  EXPECT_DOUBLE_EQ(world.plan(0).premul, 2.0);
  EXPECT_TRUE(world.plan(0).scaled.empty());
}

NcclPlan plan_alone(const Allreduce& allreduce, DataType dtype, int size, std::size_t count = 100) {
  Batch batch;
  batch.operation = allreduce;
  batch.dtype = dtype;
  batch.segments = {{nullptr, nullptr, count, 1}};
  Communicator communicator;
  communicator.size = size;
  return plan_nccl(batch, communicator, nullptr, {.pack_bytes = 64});
}

TEST(NcclPlan, GivesNcclNoFactorThatAHalfWouldRound) {
  const Allreduce average{.op = ReduceOp::kAverage};
  EXPECT_EQ(plan_alone(average, DataType::kFloat16, 4).premul, 0.25);
  for (const DataType half : {DataType::kFloat16, DataType::kBfloat16}) {
    const NcclPlan plan = plan_alone(average, half, 3);
    EXPECT_EQ(plan.premul, 1.0);
    EXPECT_EQ(plan.steps.at(0).fold, NcclFold::kSum);
    ASSERT_EQ(plan.scaled.size(), 1U);
    EXPECT_DOUBLE_EQ(plan.scale, 1.0 / 3);
  }
  // A prescale keeps sums in range: it comes first, in float32.
  const NcclPlan scaled =
      plan_alone({.op = ReduceOp::kAverage, .prescale = 0.001}, DataType::kFloat16, 4);
  EXPECT_EQ(scaled.packed.size(), 1U);
  EXPECT_DOUBLE_EQ(scaled.pack.scale, 0.001);
}

TEST(NcclPlan, DividesFloat8BeforeItAdds) {
  const Allreduce average{.op = ReduceOp::kAverage};
  for (const DataType dtype : {DataType::kFloat8E4m3, DataType::kFloat8E5m2}) {
    const NcclPlan exact = plan_alone(average, dtype, 4);
    EXPECT_EQ(exact.premul, 0.25);
    EXPECT_EQ(exact.steps.at(0).fold, NcclFold::kPreMulSum);
    EXPECT_EQ(exact.steps.at(0).dtype, dtype);
    // A third is not a number of 8 bits: it is applied in float32, on the way into the bucket.
    const NcclPlan packed = plan_alone(average, dtype, 3);
    ASSERT_EQ(packed.packed.size(), 1U);
    EXPECT_DOUBLE_EQ(packed.pack.scale, 1.0 / 3);
    EXPECT_EQ(packed.steps.at(0).fold, NcclFold::kSum);
    EXPECT_EQ(packed.unpack.scale, 1.0);
    EXPECT_TRUE(packed.scaled.empty());
  }
}

TEST(NcclPlan, PacksWhatTravelsAsAnotherType) {
  const NcclPlan plan =
      plan_alone({.op = ReduceOp::kAverage, .wire = Wire::kBfloat16}, DataType::kFloat32, 4);
  ASSERT_EQ(plan.packed.size(), 1U);
  EXPECT_EQ(plan.pack.tensor, DataType::kFloat32);
  EXPECT_EQ(plan.pack.bucket, DataType::kBfloat16);
  EXPECT_EQ(plan.steps.at(0).dtype, DataType::kBfloat16);
  EXPECT_EQ(plan.steps.at(0).fold, NcclFold::kSum);
  EXPECT_DOUBLE_EQ(plan.unpack.scale, 0.25);
  EXPECT_TRUE(plan.scaled.empty());
}

TEST(NcclPlan, AveragesIntegersBehindTheirSum) {
  const NcclPlan plan = plan_alone({.op = ReduceOp::kAverage}, DataType::kInt32, 4);
  EXPECT_EQ(plan.steps.at(0).fold, NcclFold::kSum);
  ASSERT_EQ(plan.scaled.size(), 1U);
  EXPECT_EQ(plan.divisor, 4);
  EXPECT_EQ(plan.scale, 1.0);
  const NcclPlan scaled = plan_alone({.prescale = 2.5}, DataType::kInt32, 4);
  EXPECT_EQ(scaled.packed.size(), 1U);
  EXPECT_EQ(scaled.pack.scale, 1.0);
  EXPECT_EQ(scaled.integer_prescale, 2.5);
}

TEST(NcclPlan, TakesBoolsForBytesAndComplexNumbersForPairs) {
  EXPECT_EQ(plan_alone({}, DataType::kBool, 2).steps.at(0).fold, NcclFold::kMax);
  EXPECT_EQ(plan_alone({.op = ReduceOp::kProduct}, DataType::kBool, 2).steps.at(0).fold,
            NcclFold::kMin);
  EXPECT_EQ(plan_alone({}, DataType::kBool, 2).steps.at(0).dtype, DataType::kUint8);
  const NcclPlan plan = plan_alone({}, DataType::kComplex64, 2);
  EXPECT_EQ(plan.steps.at(0).dtype, DataType::kFloat32);
  EXPECT_EQ(plan.steps.at(0).count, 200U);
}

TEST(NcclPlan, LetsAJoinedRankTakePartWithNothingToAdd) {
  World world(Allreduce{}, {kRanks, kTensorCounts}, 40, 64);
  world.batch(2).gpu.is_neutral = true;
  world.run();
  for (std::size_t i = 0; i < kTensorCounts.size(); ++i) {
    for (std::size_t k = 0; k < kTensorCounts[i]; ++k) {
      EXPECT_FLOAT_EQ(world.output(0, i)[k], sum_of_ranks(2, i, k));
    }
  }
  EXPECT_EQ(world.output(2, 0)[0], -1.0F);
  EXPECT_EQ(world.plan(2).bucket_bytes, world.plan(0).bucket_bytes) << "they grow together";
}

TEST(NcclPlan, ReducesToTheRootAlone) {
  World world(Reduce{.root = 1, .op = ReduceOp::kSum, .postscale = 2.0}, {kRanks, kTensorCounts},
              40, 64);
  world.run();
  for (std::size_t i = 0; i < kTensorCounts.size(); ++i) {
    for (std::size_t k = 0; k < kTensorCounts[i]; ++k) {
      EXPECT_FLOAT_EQ(world.output(1, i)[k], 2 * sum_of_ranks(kRanks, i, k));
      EXPECT_EQ(world.output(0, i)[k], -1.0F);
    }
  }
}

TEST(NcclPlan, ScattersEvenAndUnevenRows) {
  for (const std::size_t rows : {1U, 2U, 7U, 9U}) {
    for (const double prescale : {1.0, 2.0}) {
      for (const ReduceOp op : {ReduceOp::kAverage, ReduceOp::kMax}) {
        World world(Reducescatter{.op = op, .prescale = prescale}, {kRanks, {rows * 2, rows * 2}},
                    40, 64);
        for (std::size_t rank = 0; rank < kRanks; ++rank) {
          for (Segment& segment : world.batch(rank).segments) segment.row_count = 2;
        }
        world.run();
        for (std::size_t rank = 0; rank < kRanks; ++rank) {
          const std::size_t begin = 2 * first_row_of(rows, kRanks, rank);
          const std::size_t end = 2 * first_row_of(rows, kRanks, rank + 1);
          for (std::size_t k = begin; k < end; ++k) {
            const auto scale = static_cast<float>(prescale);
            const float expected = op == ReduceOp::kMax ? World::value(kRanks - 1, 1, k) * scale
                                                        : sum_of_ranks(kRanks, 1, k) * scale / 3;
            EXPECT_NEAR(world.output(rank, 1)[k - begin], expected, 1e-4) << rows << " " << k;
          }
          EXPECT_EQ(world.output(rank, 1)[end - begin], -1.0F);
        }
      }
    }
  }
}

TEST(NcclPlan, BroadcastsFromTheRoot) {
  World world(Broadcast{1}, {kRanks, kTensorCounts}, 40, 64);
  world.run();
  for (std::size_t i = 0; i < kTensorCounts.size(); ++i) {
    for (std::size_t k = 0; k < kTensorCounts[i]; ++k) {
      for (std::size_t rank = 0; rank < kRanks; ++rank) {
        EXPECT_EQ(world.output(rank, i)[k], World::value(1, i, k));
      }
    }
  }
}

TEST(NcclPlan, GathersEvenAndUnevenParts) {
  for (const bool everywhere : {true, false}) {
    const Operation operation = everywhere ? Operation(Allgather{}) : Operation(Gather{2});
    const std::vector<std::vector<std::size_t>> counts = {{4, 2}, {4, 0}, {4, 5}};
    World world(operation, counts, 20, 64);
    world.run();
    for (std::size_t rank = everywhere ? 0 : 2; rank < kRanks; ++rank) {
      for (std::size_t i = 0; i < 2; ++i) {
        std::size_t place = 0;
        for (std::size_t from = 0; from < kRanks; ++from) {
          for (std::size_t k = 0; k < counts[from][i]; ++k) {
            EXPECT_EQ(world.output(rank, i)[place++], World::value(from, i, k));
          }
        }
        EXPECT_EQ(world.output(rank, i)[place], -1.0F);
      }
    }
    if (everywhere) {
      EXPECT_EQ(world.plan(0).steps.at(0).verb, NcclVerb::kAllGather);
    } else {
      EXPECT_EQ(world.output(0, 0)[0], -1.0F);
    }
  }
}

TEST(NcclPlan, ExchangesPartsOfAnySize) {
  World world(Alltoall{}, {{6}, {3}, {0}}, 10, 64);
  // splits[rank][destination]
  const std::vector<std::vector<std::size_t>> splits = {{1, 2, 3}, {3, 0, 0}, {0, 0, 0}};
  for (std::size_t rank = 0; rank < kRanks; ++rank) world.batch(rank).splits = splits[rank];
  world.run();
  for (std::size_t to = 0; to < kRanks; ++to) {
    std::size_t place = 0;
    for (std::size_t from = 0; from < kRanks; ++from) {
      const auto begin =
          std::accumulate(splits[from].begin(),
                          splits[from].begin() + static_cast<std::ptrdiff_t>(to), std::size_t{0});
      for (std::size_t k = 0; k < splits[from][to]; ++k) {
        EXPECT_EQ(world.output(to, 0)[place++], World::value(from, 0, begin + k));
      }
    }
    EXPECT_EQ(world.output(to, 0)[place], -1.0F);
  }
}

TEST(NcclPlan, ScattersThePartsOfTheRoot) {
  World world(Scatter{1}, {{0}, {5}, {0}}, 10, 64);
  world.batch(0).splits = world.batch(2).splits = {0, 0, 0};
  world.batch(1).splits = {2, 0, 3};
  world.run();
  EXPECT_EQ(world.output(0, 0)[1], World::value(1, 0, 1));
  EXPECT_EQ(world.output(1, 0)[0], -1.0F);
  EXPECT_EQ(world.output(2, 0)[2], World::value(1, 0, 4));
}

TEST(NcclOperation, LeavesToOthersWhatNcclLacks) {
  const auto code = [](const Operation& operation, DataType dtype) {
    return check_nccl_operation(operation, dtype).code();
  };
  EXPECT_EQ(code(Allreduce{}, DataType::kFloat16), Code::kOk);
  EXPECT_EQ(code(Allreduce{}, DataType::kComplex128), Code::kOk);
  EXPECT_EQ(code(Allreduce{.op = ReduceOp::kBitOr}, DataType::kBool), Code::kOk);
  EXPECT_EQ(code(Broadcast{}, DataType::kInt16), Code::kOk);
  EXPECT_EQ(code(Allreduce{}, DataType::kInt16), Code::kUnsupported);
  EXPECT_EQ(code(Allreduce{.op = ReduceOp::kBitAnd}, DataType::kInt32), Code::kUnsupported);
  EXPECT_EQ(code(Allreduce{.op = ReduceOp::kBitXor}, DataType::kBool), Code::kUnsupported);
  EXPECT_EQ(code(Allreduce{.op = ReduceOp::kProduct}, DataType::kComplex64), Code::kUnsupported);
  EXPECT_EQ(code(Allreduce{}, DataType::kFloat8E4m3), Code::kOk);
  EXPECT_EQ(code(Join{}, DataType::kFloat32), Code::kUnsupported);
}

}  // namespace
}  // namespace hvd
