// SPDX-License-Identifier: Apache-2.0
#include "engine/protocol/control_tree.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "transport/message_link.h"

namespace hvd {
namespace {

std::pair<UniqueFd, UniqueFd> connected() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

TEST(ControlTree, KeepsTheDescriptorOfADroppedLinkTaken) {
  auto [mine, theirs] = connected();
  const int number = mine.get();
  std::vector<std::unique_ptr<Link>> children;
  children.push_back(std::make_unique<Link>(std::move(mine), 1, "host"));
  ControlTree tree(nullptr, std::move(children), {.size = 2}, Clock::now());
  const std::string nonsense(64, '\xFF');
  ASSERT_EQ(::write(theirs.get(), nonsense.data(), nonsense.size()), 64);
  tree.poll([](int, ControlMessage) { ADD_FAILURE() << "a message out of nonsense"; });
  const auto losses = tree.take_losses();
  ASSERT_EQ(losses.size(), 1U);
  EXPECT_EQ(losses.front().rank, 1);
  // The child of a fork closes this number: it must not be another's yet.
  EXPECT_EQ(::fcntl(number, F_GETFD), FD_CLOEXEC);
  // The neighbour learns of it at once nevertheless.
  char byte = 0;
  EXPECT_EQ(::recv(theirs.get(), &byte, 1, MSG_DONTWAIT), 0);
  tree = ControlTree();
  EXPECT_EQ(::fcntl(number, F_GETFD), -1);
}

using std::chrono::milliseconds;
using std::chrono::seconds;

/// The tree of a leader whose only child is rank 4 on node2, and the child's end of the link.
struct Pair {
  Pair() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()), 0);
    child = std::make_unique<MessageLink>(std::make_unique<Link>(UniqueFd(ends[1]), 0, "node1"));
    std::vector<std::unique_ptr<Link>> children;
    children.push_back(std::make_unique<Link>(UniqueFd(ends[0]), 4, "node2"));
    tree = ControlTree(nullptr, std::move(children),
                       {.size = 8, .heartbeat = milliseconds(500), .silence_timeout = {}}, start);
  }
  Clock::time_point start = Clock::now();
  std::unique_ptr<MessageLink> child;
  ControlTree tree;
};

TEST(ControlTree, LosesANeighbourThatNeverReads) {
  Pair pair;
  const ControlMessage message = Failure{.name = "t", .text = std::string(1 << 20, 'x')};
  int sent = 0;
  for (; sent < 1000 && !pair.tree.has_losses(); ++sent) pair.tree.send_down(message);
  EXPECT_LT(sent, 100);
  const std::vector<Lost> losses = pair.tree.take_losses();
  ASSERT_EQ(losses.size(), 1U);
  EXPECT_EQ(losses[0].rank, 4);
  EXPECT_NE(losses[0].text.find("node2 does not read: 64 MiB"), std::string::npos)
      << losses[0].text;
}

TEST(ControlTree, TellsWhyANeighbourHasEndedOnceItHas) {
  Pair pair;
  ASSERT_TRUE(pair.child->queue(encode(Farewell{"its program ended with ValueError"})).is_ok());
  ASSERT_TRUE(pair.child->flush().is_ok());
  const auto received = [](int, ControlMessage) { ADD_FAILURE() << "it is not over yet"; };
  pair.tree.poll(received);
  EXPECT_FALSE(pair.tree.has_losses());
  pair.child.reset();
  pair.tree.poll(received);
  const std::vector<Lost> losses = pair.tree.take_losses();
  ASSERT_EQ(losses.size(), 1U);
  EXPECT_EQ(losses[0].text, "rank 4 on host node2 is lost: its program ended with ValueError");
}

TEST(ControlTree, HeartbeatsDoNotPileUpWhereNobodyReads) {
  Pair pair;
  pair.tree.send_down(Failure{.name = "t", .text = std::string(1 << 20, 'x')});
  EXPECT_FALSE(pair.tree.flush());
  for (int beat = 1; beat <= 1000; ++beat) {
    pair.tree.set_time(pair.start + beat * seconds(1));
    pair.tree.beat();
  }
  int messages = 0;
  for (bool all = false; !all;) {
    all = pair.tree.flush();
    for (auto got = pair.child->receive(); got.is_ok() && got.value();
         got = pair.child->receive()) {
      ++messages;
    }
  }
  EXPECT_EQ(messages, 1);
  pair.tree.beat();
  EXPECT_TRUE(pair.tree.flush());
  EXPECT_TRUE(pair.child->receive().value_or(std::nullopt).has_value());  // a heartbeat again
}

}  // namespace
}  // namespace hvd
