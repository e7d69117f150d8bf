// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/thread_world.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "bootstrap/local_host.h"
#include "bootstrap/wiring_shape.h"

namespace hvd {
namespace {

std::byte send_across(Link& from, Link& to) {
  const std::array<std::byte, 1> sent = {std::byte{42}};
  EXPECT_EQ(from.send_some(sent).value_or(0), 1U);
  std::array<std::byte, 1> got{};
  EXPECT_EQ(to.receive_some(got).value_or(0), 1U);
  return got[0];
}

TEST(ThreadWorld, SizeOneHasMemoryAndNoLinks) {
  auto world = wire_threads({.memory_bytes = [](int) { return std::size_t{100}; }});
  ASSERT_TRUE(world.is_ok()) << world.status().message();
  ASSERT_EQ(world.value().size(), 1U);
  const Wiring& only = world.value()[0];
  EXPECT_EQ(only.lanes, 0);
  EXPECT_EQ(only.parent, nullptr);
  EXPECT_TRUE(only.children.empty());
  EXPECT_EQ(only.node.memory.size(), 100U);
  EXPECT_GE(only.peers[0].usable_cpus, 1);
}

TEST(ThreadWorld, RanksOfANodeShareOneMapping) {
  auto result = wire_threads({.size = 5, .node_sizes = {3, 2}, .memory_bytes = [](int local_size) {
                                return static_cast<std::size_t>(local_size) * 4096;
                              }});
  ASSERT_TRUE(result.is_ok()) << result.status().message();
  auto& world = result.value();
  EXPECT_EQ(world[0].node.memory.data(), world[2].node.memory.data());
  EXPECT_NE(world[0].node.memory.data(), world[3].node.memory.data());
  EXPECT_EQ(world[3].node.memory.size(), 2U * 4096U);
  EXPECT_EQ(world[4].peers[4].node, 1);
  EXPECT_EQ(world[4].peers[4].local_rank, 1);
  EXPECT_EQ(world[4].lanes, 2);
  EXPECT_EQ(world[2].lane[1], nullptr);  // beyond the lanes
  EXPECT_EQ(world[1].lane[0], nullptr);  // my own node
  EXPECT_EQ(send_across(*world[1].lane[1], *world[4].lane[0]), std::byte{42});
  EXPECT_EQ(send_across(*world[3].parent, *world[0].children[0]), std::byte{42});
  EXPECT_EQ(world[1].parent, nullptr);
  world[1].node.doorbell->set_asleep(true);
  EXPECT_FALSE(world[0].node.doorbell->is_asleep());
  world[0].node.doorbell->ring(1);
}

TEST(ThreadWorld, HasSeveralSocketsToEachNodeInOneOrder) {
  auto result = wire_threads({.size = 3,
                              .node_sizes = {1, 1, 1},
                              .memory_bytes = [](int) { return std::size_t{4096}; },
                              .sockets = 2});
  ASSERT_TRUE(result.is_ok()) << result.status().message();
  auto& world = result.value();
  for (std::size_t a = 0; a < 3; ++a) {
    ASSERT_EQ(world[a].lane.size(), 6U);
    for (std::size_t b = 0; b < 3; ++b) {
      for (std::size_t socket = 0; socket < 2; ++socket) {
        const auto& link = world[a].lane[2 * b + socket];
        ASSERT_EQ(link == nullptr, a == b) << a << " to " << b;
        if (a == b) continue;
        const auto& other = world[b].lane[2 * a + socket];
        ASSERT_NE(other, nullptr) << b << " to " << a;
        EXPECT_EQ(link->peer_rank(), static_cast<int>(b));
        EXPECT_EQ(send_across(*link, *other), std::byte{42});
      }
    }
  }
}

TEST(ThreadWorld, MemoryOutlivesTheOtherRanks) {
  auto result = wire_threads({.size = 2, .memory_bytes = [](int) { return std::size_t{4096}; }});
  ASSERT_TRUE(result.is_ok());
  Wiring last = std::move(result.value()[1]);
  result.value().clear();
  std::memset(last.node.memory.data(), 1, last.node.memory.size());
}

TEST(ThreadWorld, RefusesNodesThatDoNotAddUp) {
  EXPECT_EQ(wire_threads({.size = 4, .node_sizes = {2, 1}}).status().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(wire_threads({.size = 2, .node_sizes = {2, 0}}).status().code(),
            Code::kInvalidArgument);
}

TEST(WiringShape, LeadersFormATreeOfFanOutFour) {
  std::vector<std::vector<int>> nodes;
  for (int i = 0; i < 11; ++i) nodes.push_back({2 * i, 2 * i + 1});
  const WiringShape shape(nodes);
  EXPECT_EQ(shape.children_of(0), (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(shape.children_of(2), (std::vector<int>{9, 10}));
  EXPECT_TRUE(shape.children_of(3).empty());
  EXPECT_EQ(WiringShape::parent_of(0), -1);
  EXPECT_EQ(WiringShape::parent_of(9), 2);
}

TEST(LocalHost, ReadsTheQuotaOfACgroup) {
  EXPECT_EQ(cpus_of_quota("max 100000"), 0);
  EXPECT_EQ(cpus_of_quota("150000 100000"), 2);
  EXPECT_EQ(cpus_of_quota(""), 0);
  EXPECT_EQ(cpus_of_quota("200000 0"), 0);
}

}  // namespace
}  // namespace hvd
