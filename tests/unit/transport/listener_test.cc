// SPDX-License-Identifier: Apache-2.0
#include "transport/listener.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <span>
#include <string>
#include <thread>

#include "raw_server.h"
#include "transport/handshake.h"

namespace {

/// What the next calls of accept4() in this program fail with, the last first.
std::atomic<int> failures_left{0};
constexpr std::array kAcceptFailures = {EPROTO, ECONNABORTED};

}  // namespace

// Stands before the C library's: a connection that its client resets before it is taken is an
// error of accept() on some systems and kernels, and cannot be provoked on others.
extern "C" int accept4(int fd, sockaddr* address, socklen_t* length, int flags) {
  const int left = failures_left.load();
  if (left == 0) return static_cast<int>(::syscall(SYS_accept4, fd, address, length, flags));
  failures_left.store(left - 1);
  errno = kAcceptFailures[static_cast<std::size_t>(left - 1)];
  return -1;
}

namespace hvd {
namespace {

TEST(Listener, NamesThePortThatIsInUse) {
  const auto first = Listener::open();
  ASSERT_TRUE(first.is_ok()) << first.status().message();
  const auto second = Listener::open(first.value().port());
  ASSERT_FALSE(second.is_ok());
  EXPECT_NE(second.status().message().find(std::to_string(first.value().port())),
            std::string::npos);
  EXPECT_NE(second.status().message().find("in use"), std::string::npos);
}

TEST(Listener, AConnectionThatIsGoneBeforeItIsTakenDoesNoHarm) {
  const auto listener = Listener::open();
  ASSERT_TRUE(listener.is_ok()) << listener.status().message();
  const auto address = SocketAddress::of("127.0.0.1", listener.value().port()).value();
  const UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(client.get(), address.raw(), address.length()), 0);
  failures_left.store(static_cast<int>(kAcceptFailures.size()));
  const auto taken = listener.value().accept();
  EXPECT_EQ(failures_left.load(), 0);
  ASSERT_TRUE(taken.is_ok()) << taken.status().message();
  EXPECT_TRUE(taken.value().is_open());
}

TEST(ConnectAuthenticated, ASilentCandidateDoesNotKeepTheNextOneWaiting) {
  const JobKey key = JobKey::random();
  const RawServer silent;
  const RawServer real;
  const std::array candidates{silent.address(), real.address()};
  std::thread server([&] {
    const UniqueFd socket = real.accept();
    EXPECT_TRUE(
        shake_hands(socket.get(), Handshake::Side::kServer, key, RawServer::in_time()).is_ok());
  });
  const auto connected = connect_authenticated(candidates, key, RawServer::in_time());
  server.join();
  ASSERT_TRUE(connected.is_ok()) << connected.status().message();
  EXPECT_EQ(peer_port(connected.value().get()), real.port());
}

TEST(ConnectAuthenticated, NamesBothEndsOfTheWayToEachCandidate) {
  const RawServer closed(false);
  const RawServer silent;
  const std::array candidates{closed.address(), silent.address()};
  const auto connected = connect_authenticated(candidates, JobKey::random(),
                                               Deadline::after(std::chrono::milliseconds(50)));
  EXPECT_EQ(connected.status().code(), Code::kTimeout);
  const std::string text = connected.status().message();
  const std::string from = "from lo 127.0.0.1 here to 127.0.0.1:";
  EXPECT_NE(text.find(format_text("{}{}: Connection refused", from, closed.port())),
            std::string::npos)
      << text;
  EXPECT_NE(text.find(format_text("{}{}: handshake: the peer is silent", from, silent.port())),
            std::string::npos)
      << text;
}

TEST(ConnectAuthenticated, EndsWhenTheOwnListenerIsInterrupted) {
  const auto own = Listener::open();
  ASSERT_TRUE(own.is_ok());
  const RawServer silent;
  const std::array candidates{silent.address()};
  std::thread interrupter([&] {
    const UniqueFd arrived = silent.accept();  // It waits for an answer from here on.
    own.value().interrupt();
  });
  const auto connected =
      connect_authenticated(candidates, JobKey::random(), RawServer::in_time(), &own.value());
  interrupter.join();
  EXPECT_EQ(connected.status().code(), Code::kAborted) << connected.status().message();
}

}  // namespace
}  // namespace hvd
