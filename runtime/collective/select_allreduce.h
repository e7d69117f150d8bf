// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hvd {

/// How the partial results of several nodes become one result. All give the same bits: the nodes
/// are folded in one tree, whoever folds what.
enum class NodeAlgorithm {
  kDirect,             ///< Each node sends its partial results whole to all that want the result.
  kRecursiveDoubling,  ///< Whole partial results, to partners 1, 2, 4, ... nodes away.
  kHalvingDoubling,    ///< The same, halving what travels; then back, doubling it.
  kPairwise,           ///< Node m gets slice m from each node, folds it and sends it to all.
  kTree,               ///< Up a binomial tree to node 0, and down again.
};
/// "direct", "recursive doubling", ...
std::string_view name_of(NodeAlgorithm algorithm);

/// Who wants the result.
enum class NodeGoal {
  kEveryNode,  ///< Allreduce.
  kOneNode,    ///< Reduce.
  kOwnShare,   ///< Reducescatter.
};
std::string_view name_of(NodeGoal goal);

/// What is to be folded between nodes: equal on every rank.
struct NodeWork {
  NodeGoal goal = NodeGoal::kEveryNode;
  int nodes = 1;
  int lanes = 1;                  ///< That share the bytes.
  std::size_t partial_bytes = 0;  ///< Of one node, over all lanes.
  std::size_t result_bytes = 0;   ///< Less than partial_bytes where a half type is folded.
  std::size_t round_bytes = 1;    ///< Results that travel together, over all lanes.
  bool at_once = false;           ///< All nodes are folded in one step: see narrow_partials.
};

struct NodeSelection {
  NodeAlgorithm algorithm = NodeAlgorithm::kDirect;
  std::string reason() const;  ///< One sentence.
  NodeWork work;
  long long estimate_ns = 0;
  NodeAlgorithm second = NodeAlgorithm::kDirect;  ///< The best of the others.
  long long second_ns = -1;                       ///< -1: there is none.
};

/// The algorithm with the least estimate, by the steps that follow one another, the messages that a
/// node sends and the bytes it moves. Pure, and in integers: equal work gives equal choices on all
/// ranks.
NodeSelection select_allreduce(const NodeWork& work);

/// "direct up to 64 KiB, halving-doubling": the choices for work like this of every size.
std::string describe_allreduce_choices(NodeWork work);

}  // namespace hvd
