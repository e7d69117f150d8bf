// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdint>

#include "base/deadline.h"
#include "base/unique_fd.h"
#include "transport/socket_address.h"
#include "transport/socket_io.h"

namespace hvd {

inline std::uint16_t port_of(const sockaddr_in& address) { return ntohs(address.sin_port); }

/// The port at the far end of a connected IPv4 socket.
inline std::uint16_t peer_port(int fd) {
  sockaddr_in address{};
  socklen_t length = sizeof address;
  EXPECT_EQ(::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &length), 0);
  return port_of(address);
}

/// A port of 127.0.0.1 that listens, and does with who comes what a test says: most often nothing.
class RawServer {
 public:
  /// `listens` false: has the port, and refuses who comes.
  explicit RawServer(bool listens = true)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    const int reuse = 1;
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const raw = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(socket_.get(), raw, length), 0);
    if (listens) {
      EXPECT_EQ(::listen(socket_.get(), 16), 0);
    }
    EXPECT_EQ(::getsockname(socket_.get(), raw, &length), 0);
    port_ = port_of(address);
  }

  /// Time enough on a busy machine.
  static Deadline in_time() { return Deadline::after(std::chrono::seconds(60)); }

  std::uint16_t port() const { return port_; }
  SocketAddress address() const { return SocketAddress::of("127.0.0.1", port_).value(); }

  /// The next connection; not open, and a failure, when none comes in time.
  UniqueFd accept() const {
    EXPECT_TRUE(wait_ready(socket_.get(), POLLIN, in_time()).value_or(false));
    UniqueFd peer(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    EXPECT_TRUE(peer.is_open());
    return peer;
  }

 private:
  UniqueFd socket_;
  std::uint16_t port_ = 0;
};

}  // namespace hvd
