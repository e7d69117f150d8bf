// SPDX-License-Identifier: Apache-2.0
#include "transport/handshake.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <random>
#include <string>
#include <thread>

#include "socket_pair.h"
#include "transport/node_exchange.h"
#include "transport/socket_address.h"
#include "transport/socket_io.h"

namespace hvd {
namespace {

using std::chrono::milliseconds;

Deadline soon() { return Deadline::after(std::chrono::seconds(10)); }

Status against_client(const JobKey& server_key, const JobKey& client_key, Status& server) {
  auto [a, b] = socket_pair();
  std::thread peer([&, fd = b.get()] {
    server = shake_hands(fd, Handshake::Side::kServer, server_key, soon());
    ::shutdown(fd, SHUT_RDWR);
  });
  Status client = shake_hands(a.get(), Handshake::Side::kClient, client_key, soon());
  a.reset();
  peer.join();
  return client;
}

TEST(Handshake, ProvesTheSameKey) {
  const JobKey key = JobKey::random();
  Status server;
  EXPECT_TRUE(against_client(key, key, server).is_ok());
  EXPECT_TRUE(server.is_ok()) << server.message();
}

TEST(Handshake, RefusesAnotherJob) {
  Status server;
  const Status client = against_client(JobKey::random(), JobKey::random(), server);
  EXPECT_EQ(client.code(), Code::kMismatch);
  EXPECT_NE(client.message().find("another job's key"), std::string::npos);
  EXPECT_FALSE(server.is_ok());
}

TEST(Handshake, RefusesOtherProtocolsAtTheFirstByte) {
  auto [a, b] = socket_pair();
  ASSERT_EQ(::send(a.get(), "GET", 3, 0), 3);
  const Status server = shake_hands(b.get(), Handshake::Side::kServer, JobKey::random(), soon());
  EXPECT_EQ(server.code(), Code::kInvalidArgument);
  EXPECT_NE(server.message().find("protocol"), std::string::npos);
}

TEST(Handshake, RefusesSilence) {
  auto [a, b] = socket_pair();
  const Status server = shake_hands(b.get(), Handshake::Side::kServer, JobKey::random(),
                                    Deadline::after(milliseconds(20)));
  EXPECT_EQ(server.code(), Code::kTimeout);
  EXPECT_NE(server.message().find("silent"), std::string::npos);
}

TEST(Handshake, RefusesATruncatedHello) {
  auto [a, b] = socket_pair();
  ASSERT_EQ(::send(a.get(), "hvdwire1abc", 11, 0), 11);
  a.reset();
  const Status server = shake_hands(b.get(), Handshake::Side::kServer, JobKey::random(), soon());
  EXPECT_EQ(server.code(), Code::kPeerLost);
}

TEST(Handshake, SurvivesRandomBytes) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    auto [a, b] = socket_pair();
    std::string bytes = round % 2 == 0 ? "hvdwire1" : "";
    const std::size_t size = random() % 200;
    while (bytes.size() < size) bytes += static_cast<char>(random());
    ASSERT_EQ(::send(a.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    const auto side = round % 3 == 0 ? Handshake::Side::kClient : Handshake::Side::kServer;
    ASSERT_EQ(::shutdown(a.get(), SHUT_WR), 0);
    EXPECT_FALSE(shake_hands(b.get(), side, JobKey::random(), soon()).is_ok());
  }
}

TEST(JobKey, NeedsSixtyFourHexDigits) {
  const JobKey key = JobKey::random();
  EXPECT_EQ(key.to_hex().size(), 64U);
  EXPECT_EQ(JobKey::from_hex(key.to_hex()).value_or(JobKey()).to_hex(), key.to_hex());
  for (const std::string& bad :
       {std::string(), std::string(63, 'a'), std::string(66, 'a'), std::string(64, 'g')}) {
    const auto parsed = JobKey::from_hex(bad);
    ASSERT_FALSE(parsed.is_ok());
    if (!bad.empty()) {
      EXPECT_EQ(parsed.status().message().find(bad), std::string::npos);
    }
  }
}

TEST(SocketAddress, ReadsBothFamilies) {
  for (const std::string text : {"10.1.2.3:4567", "[::1]:80", "[2001:db8::5]:65535"}) {
    const auto address = SocketAddress::parse(text);
    ASSERT_TRUE(address.is_ok()) << address.status().message();
    EXPECT_EQ(address.value().to_string(), text);
  }
  for (const std::string text :
       {"", ":", "host:1", "1.2.3.4", "1.2.3.4:0", "1.2.3.4:65536", "1.2.3.4:1x", "[::1]"}) {
    EXPECT_FALSE(SocketAddress::parse(text).is_ok()) << text;
  }
  EXPECT_FALSE(parse_addresses("").is_ok());
}

TEST(SocketAddress, SaysWhatIsNone) {
  const auto address = SocketAddress::parse("localhost:80");
  ASSERT_FALSE(address.is_ok());
  EXPECT_EQ(address.status().message(), "'localhost' is not a numeric IPv4 or IPv6 address");
}

TEST(SocketIo, RefusesAnOverlongFrame) {
  auto [a, b] = socket_pair();
  ASSERT_TRUE(send_frame(a.get(), Bytes(100), soon(), "test").is_ok());
  const auto got = receive_frame(b.get(), 99, soon(), "test");
  EXPECT_EQ(got.status().code(), Code::kInternal);
}

TEST(NodeExchange, SharesOneSegmentAmongItsRanks) {
  const auto listener = AbstractListener::open();
  ASSERT_TRUE(listener.is_ok());
  const JobKey key = JobKey::random();
  const auto options = [&](int rank, const JobKey& with) {
    return NodeExchangeOptions{.ranks = {2, 5, 9},
                               .rank = rank,
                               .leader_name = listener.value().name(),
                               .listener = rank == 2 ? &listener.value() : nullptr,
                               .memory_bytes = 4096,
                               .key = with,
                               .deadline = soon()};
  };
  std::vector<Result<NodeGroup>> groups;
  for (int i = 0; i < 3; ++i) groups.emplace_back(Status(Code::kAborted, "not run"));
  std::thread stranger([&] { EXPECT_FALSE(exchange_node(options(5, JobKey::random())).is_ok()); });
  std::thread leader([&] { groups[0] = exchange_node(options(2, key)); });
  stranger.join();
  std::thread fifth([&] { groups[1] = exchange_node(options(5, key)); });
  groups[2] = exchange_node(options(9, key));
  leader.join();
  fifth.join();
  for (auto& group : groups) ASSERT_TRUE(group.is_ok()) << group.status().message();
  EXPECT_EQ(groups[2].value().local_rank, 2);
  groups[0].value().memory[4095] = std::byte{9};
  EXPECT_EQ(groups[2].value().memory[4095], std::byte{9});
  groups[1].value().doorbell->set_asleep(true);
  groups[2].value().doorbell->ring(1);
  EXPECT_TRUE(wait_ready(groups[1].value().doorbell->fd(), 1, soon()).value_or(false));
}

TEST(NodeExchange, NamesTheRankThatDidNotCome) {
  const auto listener = AbstractListener::open();
  ASSERT_TRUE(listener.is_ok());
  const auto group = exchange_node({.ranks = {0, 3},
                                    .rank = 0,
                                    .leader_name = listener.value().name(),
                                    .listener = &listener.value(),
                                    .memory_bytes = 64,
                                    .key = JobKey::random(),
                                    .deadline = Deadline::after(milliseconds(20))});
  EXPECT_EQ(group.status().code(), Code::kTimeout);
  EXPECT_NE(group.status().message().find("rank 3"), std::string::npos);
}

}  // namespace
}  // namespace hvd
