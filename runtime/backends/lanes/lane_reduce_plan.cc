// SPDX-License-Identifier: Apache-2.0
#include "backends/lanes/lane_reduce_plan.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "backends/node/reduce_batch.h"
#include "backends/node/reduce_stream.h"
#include "base/rounding.h"
#include "collective/wire_cast.h"

namespace hvd {
namespace {

// Up to here one lane carries all: the others would only add messages.
constexpr std::size_t kOneLaneBytes = std::size_t{16} << 10;
constexpr std::size_t kPlanLine = 64;

int lanes_for(std::size_t result_bytes, const LaneSet& lanes) {
  return result_bytes <= kOneLaneBytes ? 1 : lanes.lanes();
}

NodeGoal goal_of(const Operation& operation) {
  if (std::holds_alternative<Reduce>(operation)) return NodeGoal::kOneNode;
  if (std::holds_alternative<Reducescatter>(operation)) return NodeGoal::kOwnShare;
  return NodeGoal::kEveryNode;
}

/// What belongs to the ranks of one node, read from its beginning to its end.
class NodeShare {
 public:
  void append(const Segment& segment) {
    segments_.push_back(segment);
    count_ += segment.count;
  }
  std::size_t count() const { return count_; }

  /// Moves the next `count` elements to `stream`, with zeros for what is not there.
  void take(std::size_t count, std::size_t element, std::vector<Segment>& stream) {
    // Read, never written.
    alignas(kPlanLine) static const std::array<std::byte, NodePlane::kSlotBytes> zeros{};
    while (count > 0 && next_ < segments_.size()) {
      const Segment& segment = segments_[next_];
      const std::size_t n = std::min(count, segment.count - taken_);
      if (n > 0) stream.push_back(part(segment, taken_ * element, n));
      count -= n;
      taken_ += n;
      if (taken_ < segment.count) continue;
      ++next_;
      taken_ = 0;
    }
    if (count > 0) stream.push_back({.input = zeros.data(), .output = nullptr, .count = count});
  }

 private:
  static Segment part(const Segment& segment, std::size_t offset, std::size_t count) {
    auto* const output = static_cast<std::byte*>(segment.output);
    return {.input = static_cast<const std::byte*>(segment.input) + offset,
            .output = output == nullptr ? nullptr : output + offset,
            .count = count};
  }

  std::vector<Segment> segments_;
  std::size_t count_ = 0;
  std::size_t next_ = 0;
  std::size_t taken_ = 0;  // elements of the next segment
};

/// Elements that each node's share has in a piece, for as few rounds as can be: all nodes reduce
/// in every round, and all end in the same one. Nothing where a slot cannot hold a line for each.
std::vector<std::size_t> elements_by_node(const std::vector<NodeShare>& shares, int owners,
                                          std::size_t element) {
  const auto lanes = static_cast<std::size_t>(owners);
  const std::size_t largest = ReduceStream::largest_piece(owners);
  const std::size_t padding = shares.size() * kPlanLine;
  if (padding > largest / 2) return {};
  std::size_t total = 0;
  for (const NodeShare& share : shares) total += share.count() * element;
  const std::size_t rounds =
      divide_up(std::max<std::size_t>(total, 1), (largest - padding) * lanes);
  std::vector<std::size_t> elements;
  for (const NodeShare& share : shares) {
    const std::size_t bytes = divide_up(share.count() * element, rounds * lanes);
    elements.push_back(round_up(bytes, kPlanLine) / element);
  }
  return elements;
}

/// Puts the stream of a reducescatter into the order in which lanes and nodes take it: in every
/// round each lane has some of every node's share.
bool interleave(const LaneSet& lanes, LaneReducePlan& plan) {
  const Communicator& communicator = lanes.communicator();
  const auto size = static_cast<std::size_t>(communicator.size);
  const std::size_t element = plan.reduction.element_bytes();
  std::vector<NodeShare> shares(communicator.nodes.size());
  for (std::size_t i = 0; i < plan.batch.segments.size(); ++i) {
    const auto node = static_cast<std::size_t>(lanes.node_of(static_cast<int>(i % size)));
    shares[node].append(plan.batch.segments[i]);
  }
  const std::vector<std::size_t> counts = elements_by_node(shares, plan.owners, element);
  const auto piece = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  if (piece == 0) return false;
  std::size_t rounds = 0;
  for (std::size_t node = 0; node < shares.size(); ++node) {
    if (counts[node] == 0) continue;
    const std::size_t per_round = counts[node] * static_cast<std::size_t>(plan.owners);
    rounds = std::max(rounds, divide_up(shares[node].count(), per_round));
  }
  std::vector<Segment> stream;
  for (std::size_t i = 0; i < rounds * static_cast<std::size_t>(plan.owners); ++i) {
    for (std::size_t node = 0; node < shares.size(); ++node) {
      shares[node].take(counts[node], element, stream);
    }
  }
  plan.batch.segments = std::move(stream);
  plan.part_elements = counts;
  return true;
}

}  // namespace

NodeWork node_work_of(const Batch& batch, const Reduction& reduction, const LaneSet& lanes) {
  const std::size_t count = batch.total_count();
  const std::size_t bytes = count * reduction.element_bytes();
  return {.goal = goal_of(batch.operation),
          .nodes = lanes.node_count(),
          .lanes = lanes_for(bytes, lanes),
          .partial_bytes = count * reduction.partial_bytes(),
          .result_bytes = bytes,
          .round_bytes = NodePlane::kSlotBytes,
          .at_once = reduction.narrow_partials};
}

Result<LaneReducePlan> plan_lane_reduce(const LaneSet& lanes, Batch batch,
                                        const Reduction& reduction, NodeAlgorithm algorithm) {
  NodeGoal goal = goal_of(batch.operation);
  const auto root = root_of(batch.operation);
  const std::size_t bytes = batch.total_count() * reduction.element_bytes();
  LaneReducePlan plan{.batch = std::move(batch),
                      .reduction = reduction,
                      .schedule = {},
                      .owners = lanes_for(bytes, lanes)};
  if (goal != NodeGoal::kEveryNode) {
    HVD_TRY_ASSIGN(plan.batch, as_allreduce(std::move(plan.batch), lanes.communicator()));
  }
  // Where there are more nodes than lines in a piece, all learn all of the results.
  if (goal == NodeGoal::kOwnShare && !interleave(lanes, plan)) goal = NodeGoal::kEveryNode;
  plan.schedule = make_node_schedule(algorithm, goal, lanes.node_count(), lanes.node(),
                                     root ? lanes.node_of(*root) : 0);
  return plan;
}

}  // namespace hvd
