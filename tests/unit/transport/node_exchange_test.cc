// SPDX-License-Identifier: Apache-2.0
#include "transport/node_exchange.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/unique_fd.h"

namespace hvd {
namespace {

TEST(AbstractListener, ALeaderThatTakesNoConnectionsIsGivenUpInTime) {
  const std::string name = format_text("hvd-test-{}", ::getpid());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const UniqueFd leader(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(leader.get(), reinterpret_cast<const sockaddr*>(&address), length), 0);
  ASSERT_EQ(::listen(leader.get(), 0), 0);
  const auto first = AbstractListener::connect(name, Deadline::after(std::chrono::seconds(20)));
  ASSERT_TRUE(first.is_ok()) << first.status().message() << "; it waits in the backlog";
  const auto second =
      AbstractListener::connect(name, Deadline::after(std::chrono::milliseconds(50)));
  EXPECT_EQ(second.status().code(), Code::kTimeout) << second.status().message();
  EXPECT_EQ(second.status().message(), "the leader of the node takes no connections");
}

TEST(AbstractListener, ALeaderThatIsNotThereIsAnErrorAtOnce) {
  const auto nobody =
      AbstractListener::connect("hvd-test-nobody", Deadline::after(std::chrono::seconds(20)));
  EXPECT_EQ(nobody.status().code(), Code::kSystem);
}

/// Ranks 0 and 1 of a node, each with its own idea of how much memory they share.
std::vector<Result<NodeGroup>> exchange(const AbstractListener& listener, std::size_t of_follower,
                                        Deadline deadline) {
  const JobKey key = JobKey::random();
  const auto run = [&](int rank, std::size_t bytes) {
    return exchange_node({.ranks = {0, 1},
                          .rank = rank,
                          .leader_name = listener.name(),
                          .listener = rank == 0 ? &listener : nullptr,
                          .memory_bytes = bytes,
                          .key = key,
                          .deadline = deadline});
  };
  std::vector<Result<NodeGroup>> groups;
  for (int i = 0; i < 2; ++i) groups.emplace_back(Status(Code::kAborted, "not run"));
  std::thread leader([&] { groups[0] = run(0, 4096); });
  groups[1] = run(1, of_follower);
  leader.join();
  return groups;
}

TEST(NodeExchange, SilentConnectionsHoldUpNobody) {
  const auto listener = AbstractListener::open();
  ASSERT_TRUE(listener.is_ok());
  // One after the other, each for as long as it may be silent, they would take longer than this.
  const Deadline deadline = Deadline::after(std::chrono::seconds(30));
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 8; ++i) {
    auto stranger = AbstractListener::connect(listener.value().name(), deadline);
    ASSERT_TRUE(stranger.is_ok()) << stranger.status().message();
    silent.push_back(std::move(stranger).value());
  }
  for (const auto& group : exchange(listener.value(), 4096, deadline)) {
    EXPECT_TRUE(group.is_ok()) << group.status().message();
  }
}

TEST(NodeExchange, AllHearWhyARankCannotMapTheMemory) {
  const auto listener = AbstractListener::open();
  ASSERT_TRUE(listener.is_ok());
  const auto groups =
      exchange(listener.value(), std::size_t{1} << 50, Deadline::after(std::chrono::seconds(30)));
  ASSERT_FALSE(groups[1].is_ok());
  EXPECT_EQ(groups[0].status().code(), groups[1].status().code());
  EXPECT_EQ(groups[0].status().message(),
            "rank 1 of the same node: " + groups[1].status().message());
}

}  // namespace
}  // namespace hvd
