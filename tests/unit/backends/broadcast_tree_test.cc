// SPDX-License-Identifier: Apache-2.0
#include "backends/lanes/broadcast_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace hvd {
namespace {

constexpr BroadcastShape kAll[] = {BroadcastShape::kFlat, BroadcastShape::kBinomial,
                                   BroadcastShape::kChain};

TEST(BroadcastTree, ReachesEveryNodeOnceFromItsParent) {
  for (const BroadcastShape shape : kAll) {
    for (int nodes = 2; nodes <= 33; ++nodes) {
      for (const int root : {0, nodes / 2, nodes - 1}) {
        SCOPED_TRACE(testing::Message()
                     << "shape " << static_cast<int>(shape) << ", " << nodes << " nodes, " << root);
        std::vector<int> reached{root};
        for (std::size_t i = 0; i < reached.size(); ++i) {
          for (const int child : broadcast_children(shape, nodes, root, reached[i])) {
            ASSERT_GE(child, 0);
            ASSERT_LT(child, nodes);
            EXPECT_EQ(broadcast_parent(shape, nodes, root, child), reached[i]);
            reached.push_back(child);
          }
          ASSERT_LE(reached.size(), static_cast<std::size_t>(nodes));
        }
        std::sort(reached.begin(), reached.end());
        EXPECT_EQ(std::unique(reached.begin(), reached.end()), reached.end());
        EXPECT_EQ(reached.size(), static_cast<std::size_t>(nodes));
      }
    }
  }
}

TEST(BroadcastTree, SendsFirstToWhoHasMostBelow) {
  EXPECT_EQ(broadcast_children(BroadcastShape::kBinomial, 8, 0, 0), (std::vector<int>{4, 2, 1}));
  EXPECT_EQ(broadcast_children(BroadcastShape::kBinomial, 8, 0, 4), (std::vector<int>{6, 5}));
  EXPECT_EQ(broadcast_children(BroadcastShape::kBinomial, 6, 5, 5), (std::vector<int>{3, 1, 0}));
  EXPECT_EQ(broadcast_children(BroadcastShape::kChain, 4, 3, 1), (std::vector<int>{2}));
  EXPECT_EQ(broadcast_children(BroadcastShape::kChain, 4, 3, 2), (std::vector<int>{}));
  EXPECT_EQ(broadcast_children(BroadcastShape::kFlat, 4, 2, 2), (std::vector<int>{3, 0, 1}));
}

TEST(BroadcastTree, IsFlatWhereItIsSmallAndAChainWhereItIsLong) {
  constexpr std::size_t kRound = std::size_t{128} << 10;
  EXPECT_EQ(select_broadcast(2, 1000, kRound), BroadcastShape::kFlat) << "there is one way";
  EXPECT_EQ(select_broadcast(4, 1, 8), BroadcastShape::kFlat);
  EXPECT_EQ(select_broadcast(64, 1, 8), BroadcastShape::kBinomial);
  EXPECT_EQ(select_broadcast(64, 3, kRound), BroadcastShape::kBinomial);
  EXPECT_EQ(select_broadcast(3, 100, kRound), BroadcastShape::kChain);
  EXPECT_EQ(select_broadcast(64, 1000, kRound), BroadcastShape::kChain);
  EXPECT_EQ(select_broadcast(64, 0, 0), BroadcastShape::kFlat) << "nothing to send";
}

}  // namespace
}  // namespace hvd
