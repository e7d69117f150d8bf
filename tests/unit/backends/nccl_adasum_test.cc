// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/nccl_adasum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <numeric>
#include <random>

#include "collective/adasum.h"

namespace hvd {
namespace {

using Gradients = std::vector<std::vector<double>>;  // by tensor

const std::vector<std::size_t> kGradientCounts{1, 1000, 7, 333, 64, 2001};

/// Neither orthogonal nor parallel: a part that all ranks have, and one of each.
std::vector<Gradients> gradients_of(int ranks) {
  std::mt19937 random(7);  // NOLINT(bugprone-random-generator-seed): the same in each run
  std::normal_distribution<double> normal;
  Gradients common;
  for (const std::size_t count : kGradientCounts) {
    auto& tensor = common.emplace_back(count);
    for (double& value : tensor) value = normal(random);
  }
  std::vector<Gradients> all(static_cast<std::size_t>(ranks), common);
  for (Gradients& gradients : all) {
    for (auto& tensor : gradients) {
      for (double& value : tensor) value += normal(random);
    }
  }
  return all;
}

/// By the definition: whole gradients, level by level.
std::vector<Gradients> combine_flat(std::vector<Gradients> values) {
  const AdasumSchedule schedule(static_cast<int>(values.size()));
  for (int level = 0; level < schedule.levels(); ++level) {
    const std::vector<Gradients> before = values;
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
      const auto step = schedule.step(level, static_cast<int>(rank));
      if (!step.receives) continue;
      const auto peer = static_cast<std::size_t>(step.peer);
      for (std::size_t i = 0; i < kGradientCounts.size(); ++i) {
        values[rank][i] = before[peer][i];
        if (!step.combines) continue;
        adasum(DataType::kFloat64, values[rank][i].data(), before[std::min(rank, peer)][i].data(),
               before[std::max(rank, peer)][i].data(), kGradientCounts[i]);
      }
    }
  }
  return values;
}

/// All ranks in one place, with the code of the host for what kernels do.
class Job {
 public:
  Job(const std::vector<int>& nodes, std::size_t slice_bytes) {
    Communicator communicator;
    communicator.size = 0;
    for (const int size : nodes) {
      auto& node = communicator.nodes.emplace_back(static_cast<std::size_t>(size));
      std::iota(node.begin(), node.end(), communicator.size);
      node_of_.resize(node_of_.size() + node.size(), communicator.nodes.size());
      communicator.size += size;
    }
    Batch batch;
    batch.operation = Allreduce{.op = ReduceOp::kAdasum};
    batch.dtype = DataType::kFloat64;
    for (const std::size_t count : kGradientCounts)
      batch.segments.push_back({nullptr, nullptr, count, 1});
    for (int rank = 0; rank < communicator.size; ++rank) {
      communicator.rank = rank;
      Rank& one = ranks_.emplace_back();
      one.plan = plan_nccl_adasum(batch, communicator, {.slice_bytes = slice_bytes});
      one.bucket.resize(one.plan.bucket_bytes / sizeof(double), std::nan(""));
    }
  }

  const NcclPlan& plan(std::size_t rank) const { return ranks_[rank].plan; }
  std::size_t gradient_bytes() const { return ranks_[0].plan.adasum.theirs; }
  std::size_t sent_to_other_nodes(std::size_t rank) const { return ranks_[rank].sent_far; }

  std::vector<Gradients> run(const std::vector<Gradients>& inputs) {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      for (const NcclPiece& piece : plan(rank).packed) {
        std::copy_n(inputs[rank][piece.segment].begin(), piece.count, at(rank, piece.offset));
      }
      if (!plan(rank).adasum.rounds.empty()) post(rank);
    }
    for (bool moves = true; moves;) {
      moves = false;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) moves = go_on(rank) || moves;
    }
    std::vector<Gradients> outputs;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      EXPECT_EQ(ranks_[rank].round, plan(rank).adasum.rounds.size()) << "rank " << rank;
      Gradients& mine = outputs.emplace_back(kGradientCounts.size());
      for (const NcclPiece& piece : plan(rank).unpacked) {
        mine[piece.segment].assign(at(rank, piece.offset), at(rank, piece.offset) + piece.count);
      }
    }
    EXPECT_TRUE(std::all_of(wires_.begin(), wires_.end(),
                            [](const auto& wire) { return wire.second.empty(); }));
    return outputs;
  }

 private:
  struct Rank {
    NcclPlan plan;
    std::vector<double> bucket;
    std::size_t round = 0;
    std::size_t sent_far = 0;
  };

  double* at(std::size_t rank, std::size_t offset) {
    EXPECT_LE(offset / sizeof(double), ranks_[rank].bucket.size());
    return ranks_[rank].bucket.data() + offset / sizeof(double);
  }

  void post(std::size_t rank) {
    for (const NcclStep& step : plan(rank).adasum.rounds[ranks_[rank].round].steps) {
      if (step.verb != NcclVerb::kSend) continue;
      ASSERT_LE(step.from.offset + step.count, plan(rank).bucket_bytes);
      const auto peer = static_cast<std::size_t>(step.peer);
      const double* const from = at(rank, step.from.offset);
      wires_[{rank, peer}].emplace_back(from, from + step.count / sizeof(double));
      if (node_of_[rank] != node_of_[peer]) ranks_[rank].sent_far += step.count;
    }
  }

  bool go_on(std::size_t rank) {
    const NcclAdasum& adasum = plan(rank).adasum;
    if (ranks_[rank].round == adasum.rounds.size()) return false;
    const NcclAdasum::Round& round = adasum.rounds[ranks_[rank].round];
    for (const NcclStep& step : round.steps) {
      if (step.verb != NcclVerb::kRecv) continue;
      auto& wire = wires_[{static_cast<std::size_t>(step.peer), rank}];
      if (wire.empty()) return false;
      EXPECT_EQ(wire.front().size(), step.count / sizeof(double));
      EXPECT_LE(step.to.offset + step.count, plan(rank).bucket_bytes);
      std::copy(wire.front().begin(), wire.front().end(), at(rank, step.to.offset));
      wire.pop_front();
    }
    calculate(rank, adasum, round);
    if (++ranks_[rank].round < adasum.rounds.size()) post(rank);
    return true;
  }

  void calculate(std::size_t rank, const NcclAdasum& adasum, const NcclAdasum::Round& round) {
    const std::vector<AdasumPair> pairs = pairs_of(adasum, round.slice);
    ASSERT_EQ(pairs.size(), kGradientCounts.size());
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      double* const mine = at(rank, round.slice.begin + pairs[i].offset);
      const double* const theirs = at(rank, adasum.theirs + pairs[i].offset);
      const double* const lower = round.is_lower ? mine : theirs;
      const double* const higher = round.is_lower ? theirs : mine;
      double* const dots = at(rank, adasum.scratch) + 3 * i;
      if (round.measures) {
        AdasumDots measured;
        measure_adasum(adasum.dtype, lower, higher, pairs[i].count, measured);
        dots[0] = measured.lower;
        dots[1] = measured.higher;
        dots[2] = measured.product;
      }
      const double* const more = at(rank, adasum.their_dots) + 3 * i;
      for (std::size_t k = 0; round.adds && k < 3; ++k) dots[k] += more[k];
      if (!round.blends) continue;
      const AdasumDots sums{.lower = dots[0], .higher = dots[1], .product = dots[2]};
      blend_adasum(adasum.dtype, mine, lower, higher, pairs[i].count, adasum_weights(sums));
    }
  }

  std::vector<Rank> ranks_;
  std::vector<std::size_t> node_of_;
  std::map<std::pair<std::size_t, std::size_t>, std::deque<std::vector<double>>> wires_;
};

constexpr std::size_t kNever = std::size_t{1} << 40;

TEST(NcclAdasum, MeansTheSameOverAnyNodesAndInAnySlices) {
  const std::vector<std::vector<int>> shapes{{1},    {2},    {3},    {4},       {5},    {7},
                                             {8},    {2, 2}, {2, 3}, {3, 2},    {4, 4}, {1, 1, 1},
                                             {5, 4}, {2, 1}, {16},   {8, 8, 5}, {4, 1}};
  for (const auto& shape : shapes) {
    const int size = std::accumulate(shape.begin(), shape.end(), 0);
    const std::vector<Gradients> inputs = gradients_of(size);
    const std::vector<Gradients> expected = combine_flat(inputs);
    for (const std::size_t slice_bytes : {std::size_t{0}, std::size_t{6000}, kNever}) {
      SCOPED_TRACE(testing::PrintToString(shape) + ", slices of " + std::to_string(slice_bytes));
      Job job(shape, slice_bytes);
      const std::vector<Gradients> outputs = job.run(inputs);
      for (std::size_t rank = 0; rank < outputs.size(); ++rank) {
        EXPECT_EQ(job.plan(rank).bucket_bytes, job.plan(0).bucket_bytes);
        ASSERT_EQ(outputs[rank], outputs[0]) << "rank " << rank << " has other bits";
        for (std::size_t i = 0; i < kGradientCounts.size(); ++i) {
          for (std::size_t k = 0; k < kGradientCounts[i]; ++k) {
            ASSERT_NEAR(outputs[rank][i][k], expected[0][i][k], 1e-12) << i << ", " << k;
          }
        }
      }
    }
  }
}

TEST(NcclAdasum, SendsASliceOnlyToOtherNodes) {
  Job sliced({4, 4}, 0);
  Job whole({4, 4}, kNever);
  static_cast<void>(sliced.run(gradients_of(8)));
  static_cast<void>(whole.run(gradients_of(8)));
  for (std::size_t rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(whole.sent_to_other_nodes(rank), whole.gradient_bytes());
    EXPECT_LE(sliced.sent_to_other_nodes(rank), sliced.gradient_bytes() / 4 + 256);
    EXPECT_GT(sliced.sent_to_other_nodes(rank), 0U);
  }
  EXPECT_LT(sliced.plan(0).bucket_bytes, whole.plan(0).bucket_bytes);
}

TEST(NcclAdasum, SharesNothingWhereThePeersOfTheFirstLevelAreOnOtherNodes) {
  // Rank 0 takes in rank 1, and then meets rank 2, on the other node.
  Job job({2, 3}, 0);
  for (std::size_t rank = 0; rank < 5; ++rank) {
    for (const auto& round : job.plan(rank).adasum.rounds) EXPECT_FALSE(round.adds);
  }
}

TEST(NcclAdasum, HasNoRoundsForNothing) {
  Communicator communicator;
  communicator.size = 2;
  Batch batch;
  batch.operation = Allreduce{.op = ReduceOp::kAdasum};
  batch.dtype = DataType::kFloat16;
  batch.segments.push_back({nullptr, nullptr, 0, 1});
  const NcclPlan plan = plan_nccl_adasum(batch, communicator, {});
  EXPECT_TRUE(plan.adasum.rounds.empty());
  EXPECT_EQ(plan.bucket_bytes, 0U);
}

}  // namespace
}  // namespace hvd
