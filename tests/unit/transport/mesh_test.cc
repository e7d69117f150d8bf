// SPDX-License-Identifier: Apache-2.0
#include "transport/mesh.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>

#include "raw_server.h"
#include "transport/handshake.h"
#include "transport/socket_io.h"

namespace hvd {
namespace {

MeshPeer peer_at(int rank, std::uint16_t port) {
  return {.id = {.purpose = LinkPurpose::kLane, .peer_rank = rank},
          .host = "h",
          .addresses = {SocketAddress::of("127.0.0.1", port).value()}};
}

TEST(Mesh, ConnectsRanksInSpiteOfStrangers) {
  const JobKey key = JobKey::random();
  const auto first = Listener::open();
  const auto second = Listener::open();
  ASSERT_TRUE(first.is_ok() && second.is_ok());
  const auto address = SocketAddress::of("127.0.0.1", first.value().port()).value();
  // A stranger that talks, one with another key, and one that is silent.
  UniqueFd talker(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(talker.get(), address.raw(), address.length()), 0);
  ASSERT_EQ(::send(talker.get(), "SSH-2.0", 7, 0), 7);
  UniqueFd silent(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(silent.get(), address.raw(), address.length()), 0);
  std::thread other([&] {
    EXPECT_FALSE(
        connect_authenticated(std::span(&address, 1), JobKey::random(), RawServer::in_time())
            .is_ok());
    const auto links = build_mesh(1, second.value(), key, {peer_at(0, first.value().port())},
                                  RawServer::in_time());
    EXPECT_TRUE(links.is_ok()) << links.status().message();
  });
  const auto links =
      build_mesh(0, first.value(), key, {peer_at(1, second.value().port())}, RawServer::in_time());
  other.join();
  ASSERT_TRUE(links.is_ok()) << links.status().message();
  EXPECT_EQ(links.value().size(), 1U);
}

TEST(Mesh, NamesTheRankThatDidNotConnect) {
  const auto listener = Listener::open();
  ASSERT_TRUE(listener.is_ok());
  const auto links = build_mesh(0, listener.value(), JobKey::random(), {peer_at(5, 1)},
                                Deadline::after(std::chrono::milliseconds(30)));
  EXPECT_EQ(links.status().code(), Code::kTimeout);
  EXPECT_NE(links.status().message().find("rank 5 on h"), std::string::npos);
}

using MeshLinks = std::map<LinkId, std::unique_ptr<Link>>;

TEST(Mesh, TriesAPeerAgainThatRefusesFirstAndListensLate) {
  const JobKey key = JobKey::random();
  const auto mine = Listener::open();
  ASSERT_TRUE(mine.is_ok());
  const RawServer late(false);
  const RawServer refuses;
  MeshPeer peer = peer_at(0, late.port());
  peer.addresses.push_back(refuses.address());
  Result<MeshLinks> links = Status(Code::kAborted, "not run");
  std::thread connector(
      [&] { links = build_mesh(1, mine.value(), key, {peer}, RawServer::in_time()); });
  // The first try: one address has refused it by now, the other one is about to.
  refuses.accept().reset();
  const auto listener = Listener::open(late.port());
  EXPECT_TRUE(listener.is_ok()) << listener.status().message();
  if (listener.is_ok()) {
    const auto accepted = build_mesh(0, listener.value(), key, {peer_at(1, mine.value().port())},
                                     RawServer::in_time());
    EXPECT_TRUE(accepted.is_ok()) << accepted.status().message();
  }
  connector.join();
  ASSERT_TRUE(links.is_ok()) << links.status().message();
  EXPECT_EQ(peer_port(links.value().begin()->second->fd()), late.port());
}

TEST(Mesh, TriesASilentPeerAgain) {
  const JobKey key = JobKey::random();
  const auto mine = Listener::open();
  ASSERT_TRUE(mine.is_ok());
  const RawServer busy;
  Result<MeshLinks> links = Status(Code::kAborted, "not run");
  std::thread connector([&] {
    links = build_mesh(1, mine.value(), key, {peer_at(0, busy.port())}, RawServer::in_time());
  });
  const UniqueFd unanswered = busy.accept();
  const UniqueFd answered = busy.accept();
  EXPECT_TRUE(
      shake_hands(answered.get(), Handshake::Side::kServer, key, RawServer::in_time()).is_ok());
  const std::byte welcome{1};
  EXPECT_TRUE(
      send_all(answered.get(), std::span(&welcome, 1), RawServer::in_time(), "test").is_ok());
  connector.join();
  EXPECT_TRUE(links.is_ok()) << links.status().message();
}

TEST(Mesh, TriesAPeerAgainThatLeavesBeforeItsWelcome) {
  const JobKey key = JobKey::random();
  const auto mine = Listener::open();
  ASSERT_TRUE(mine.is_ok());
  const RawServer server;
  Result<MeshLinks> links = Status(Code::kAborted, "not run");
  std::thread connector([&] {
    links = build_mesh(1, mine.value(), key, {peer_at(0, server.port())}, RawServer::in_time());
  });
  for (const bool welcomes : {false, true}) {
    const UniqueFd socket = server.accept();
    EXPECT_TRUE(
        shake_hands(socket.get(), Handshake::Side::kServer, key, RawServer::in_time()).is_ok());
    const std::byte welcome{1};
    if (welcomes) {
      EXPECT_TRUE(
          send_all(socket.get(), std::span(&welcome, 1), RawServer::in_time(), "test").is_ok());
    }
  }
  connector.join();
  EXPECT_TRUE(links.is_ok()) << links.status().message();
}

TEST(Mesh, EndsAtOnceWhenTheStartFailsElsewhere) {
  const RawServer silent;
  Result<MeshLinks> links = Status(Code::kAborted, "not run");
  // Once while it waits for an answer, once after it was refused.
  for (const bool refuses : {false, true}) {
    const auto listener = Listener::open();
    ASSERT_TRUE(listener.is_ok());
    std::thread connector([&] {
      links = build_mesh(1, listener.value(), JobKey::random(), {peer_at(0, silent.port())},
                         RawServer::in_time());
    });
    UniqueFd arrived = silent.accept();
    if (refuses) arrived.reset();
    listener.value().interrupt();
    connector.join();
    EXPECT_EQ(links.status().code(), Code::kAborted) << links.status().message();
  }
}

TEST(Mesh, NamesBothEndsOfTheWayToAPeerThatRefusesToTheEnd) {
  const auto mine = Listener::open();
  ASSERT_TRUE(mine.is_ok());
  const RawServer closed(false);
  const auto links = build_mesh(1, mine.value(), JobKey::random(), {peer_at(0, closed.port())},
                                Deadline::after(std::chrono::milliseconds(30)));
  EXPECT_EQ(links.status().code(), Code::kTimeout);
  const std::string way = format_text(
      "rank 0 on h: cannot connect (from lo 127.0.0.1 here to 127.0.0.1:{}: Connection refused); "
      "tried for",
      closed.port());
  EXPECT_NE(links.status().message().find(way), std::string::npos) << links.status().message();
}

/// At the deadline those who wait for this rank say that it did not come, and no more.
TEST(Mesh, SaysWhyItCannotConnectBeforeTheStartIsOver) {
  const auto mine = Listener::open();
  ASSERT_TRUE(mine.is_ok());
  const RawServer closed(false);
  const Deadline start = Deadline::after(std::chrono::seconds(4));
  EXPECT_FALSE(
      build_mesh(1, mine.value(), JobKey::random(), {peer_at(0, closed.port())}, start).is_ok());
  EXPECT_FALSE(start.has_passed());
}

TEST(Mesh, AnotherJobsKeyStaysAnotherAtOnce) {
  const auto mine = Listener::open();
  ASSERT_TRUE(mine.is_ok());
  const RawServer other;
  std::thread server([&] {
    const UniqueFd socket = other.accept();
    EXPECT_FALSE(
        shake_hands(socket.get(), Handshake::Side::kServer, JobKey::random(), RawServer::in_time())
            .is_ok());
  });
  const auto links = build_mesh(1, mine.value(), JobKey::random(), {peer_at(0, other.port())},
                                RawServer::in_time());
  server.join();
  EXPECT_EQ(links.status().code(), Code::kMismatch) << links.status().message();
}

}  // namespace
}  // namespace hvd
