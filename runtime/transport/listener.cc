// SPDX-License-Identifier: Apache-2.0
#include "transport/listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "transport/handshake.h"

namespace hvd {
namespace {

/// Small messages leave at once, dead hosts are noticed, and a window of a fast network fits.
void tune(int fd) {
  const auto set = [fd](int level, int option, int value) {
    ::setsockopt(fd, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  constexpr int kBufferBytes = 4 << 20;
  set(SOL_SOCKET, SO_SNDBUF, kBufferBytes);
  set(SOL_SOCKET, SO_RCVBUF, kBufferBytes);
}

/// Binds and listens; the error number of what failed, or 0.
int bind_to(int fd, int family, std::uint16_t port) {
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  v6.sin6_addr = in6addr_any;
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  const int both = 0;
  if (family == AF_INET6) ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &both, sizeof both);
  const auto* address = family == AF_INET6 ? reinterpret_cast<const sockaddr*>(&v6)
                                           : reinterpret_cast<const sockaddr*>(&v4);
  const socklen_t length = family == AF_INET6 ? sizeof v6 : sizeof v4;
  return ::bind(fd, address, length) != 0 || ::listen(fd, SOMAXCONN) != 0 ? errno : 0;
}

Status cannot_listen(std::uint16_t port, int cause) {
  if (cause != EADDRINUSE) {
    return Status::system(format_text("cannot listen on TCP port {}", port), cause);
  }
  return error(Code::kSystem, "TCP port {} is in use by another program; choose another port",
               port);
}

/// How long a better candidate is waited for once another one is connected.
constexpr auto kHeadStart = std::chrono::milliseconds(30);

/// One candidate on its way: connecting, then shaking hands.
struct Attempt {
  SocketAddress address;
  UniqueFd socket;
  bool connected = false;
  bool wrong_key = false;
  std::string failure;
};

void begin(Attempt& attempt) {
  attempt.socket.reset(
      ::socket(attempt.address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!attempt.socket.is_open()) {
    attempt.failure = std::generic_category().message(errno);
    return;
  }
  tune(attempt.socket.get());
  if (::connect(attempt.socket.get(), attempt.address.raw(), attempt.address.length()) == 0) {
    attempt.connected = true;
  } else if (errno != EINPROGRESS) {
    attempt.failure = std::generic_category().message(errno);
    attempt.socket.reset();
  }
}

void finish_connect(Attempt& attempt) {
  int cause = 0;
  socklen_t length = sizeof cause;
  ::getsockopt(attempt.socket.get(), SOL_SOCKET, SO_ERROR, &cause, &length);
  if (cause == 0) {
    attempt.connected = true;
    return;
  }
  attempt.failure = std::generic_category().message(cause);
  attempt.socket.reset();
}

/// Waits for one of the connecting attempts, or until the deadline.
void wait_for_any(std::vector<Attempt>& attempts, Deadline deadline) {
  std::vector<pollfd> waits;
  std::vector<Attempt*> waiting;
  for (Attempt& attempt : attempts) {
    if (!attempt.socket.is_open() || attempt.connected) continue;
    waits.push_back({.fd = attempt.socket.get(), .events = POLLOUT, .revents = 0});
    waiting.push_back(&attempt);
  }
  if (::poll(waits.data(), waits.size(), deadline.poll_timeout_ms()) <= 0) return;
  for (std::size_t i = 0; i < waits.size(); ++i) {
    if (waits[i].revents != 0) finish_connect(*waiting[i]);
  }
}

bool is_open(const Attempt& attempt) { return attempt.socket.is_open(); }
bool is_connected(const Attempt& attempt) { return is_open(attempt) && attempt.connected; }

/// The first attempt that is connected; null while a better one may still be.
Attempt* first_connected(std::vector<Attempt>& attempts, bool better_may_come) {
  const auto found = better_may_come ? std::find_if(attempts.begin(), attempts.end(), is_open)
                                     : std::find_if(attempts.begin(), attempts.end(), is_connected);
  return found != attempts.end() && is_connected(*found) ? &*found : nullptr;
}

std::string failures_of(const std::vector<Attempt>& attempts) {
  std::string text;
  for (const Attempt& attempt : attempts) {
    if (!text.empty()) text += "; ";
    text += format_text("{}: {}", attempt.address.to_string(),
                        attempt.failure.empty() ? "no answer" : attempt.failure);
  }
  return text;
}

}  // namespace

Result<Listener> Listener::open(std::uint16_t port) {
  int family = AF_INET6;
  UniqueFd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) {  // a kernel without IPv6
    family = AF_INET;
    socket.reset(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  }
  if (!socket.is_open()) return Status::system("cannot create a TCP socket", errno);
  const int reuse = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
  int cause = bind_to(socket.get(), family, port);
  if (cause != 0 && cause != EADDRINUSE && family == AF_INET6) {
    // IPv6 may be compiled in and yet disabled.
    family = AF_INET;
    socket.reset(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
    cause = bind_to(socket.get(), family, port);
  }
  if (cause != 0) return cannot_listen(port, cause);
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound), &length) != 0) {
    return Status::system("getsockname", errno);
  }
  const auto network_port = family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                               : reinterpret_cast<sockaddr_in*>(&bound)->sin_port;
  return Listener(std::move(socket), ntohs(network_port));
}

Result<UniqueFd> Listener::accept() const {
  for (;;) {
    UniqueFd peer(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (peer.is_open()) {
      tune(peer.get());
      return peer;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return UniqueFd();
    return Status::system("accept", errno);
  }
}

void Listener::interrupt() const { ::shutdown(socket_.get(), SHUT_RDWR); }

Result<UniqueFd> connect_authenticated(std::span<const SocketAddress> candidates, const JobKey& key,
                                       Deadline deadline) {
  std::vector<Attempt> attempts;
  for (const SocketAddress& address : candidates) {
    Attempt& attempt = attempts.emplace_back();
    attempt.address = address;
    begin(attempt);
  }
  // The candidates race, but a better one may be a little later.
  Deadline race = kForever;
  while (std::any_of(attempts.begin(), attempts.end(), is_open) && !deadline.has_passed()) {
    if (race.is_forever() && std::any_of(attempts.begin(), attempts.end(), is_connected)) {
      race = Deadline::after(kHeadStart);
    }
    Attempt* const attempt = first_connected(attempts, !race.has_passed());
    if (attempt == nullptr) {
      wait_for_any(attempts, deadline.earlier(race));
      continue;
    }
    // A private address may lead to some other machine than meant: only the key tells.
    const Status proven = shake_hands(attempt->socket.get(), Handshake::Side::kClient, key,
                                      deadline.earlier(Deadline::after(std::chrono::seconds(5))));
    if (proven.is_ok()) return std::move(attempt->socket);
    attempt->failure = proven.message();
    attempt->wrong_key = proven.code() == Code::kMismatch;
    attempt->socket.reset();
  }
  const bool wrong_key = std::any_of(attempts.begin(), attempts.end(),
                                     [](const Attempt& attempt) { return attempt.wrong_key; });
  Code code = deadline.has_passed() ? Code::kTimeout : Code::kPeerLost;
  if (wrong_key) code = Code::kMismatch;
  return error(code, "cannot connect ({})", failures_of(attempts));
}

}  // namespace hvd
