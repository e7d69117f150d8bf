// SPDX-License-Identifier: Apache-2.0
#include "transport/listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "transport/handshake.h"
#include "transport/interfaces.h"

namespace hvd {
namespace {

/// Small messages leave at once, and dead hosts are noticed. The buffers are left to the kernel,
/// which lets them grow to what the way needs: a size of our own ends that, and is cut to
/// net.core.rmem_max (208 KiB on Debian). 1 MiB each way between two hosts, 5 ms apart: 12 ms so,
/// 133 ms with 208 KiB, 27 ms with 4 MiB; 16 MiB without a delay: 62, 98 and 56 ms.
void tune(int fd) {
  const auto set = [fd](int level, int option, int value) {
    ::setsockopt(fd, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
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
/// How long a candidate may be silent before the next one is asked as well.
constexpr auto kPatience = std::chrono::milliseconds(500);

/// One candidate on its way: connecting, then shaking hands.
struct Attempt {
  SocketAddress address;
  UniqueFd socket;
  bool connected = false;
  std::optional<Handshake> handshake = std::nullopt;
  Deadline patience = kForever;
  bool lacks_socket = false;
  bool wrong_key = false;
  std::string failure;
};

bool is_open(const Attempt& attempt) { return attempt.socket.is_open(); }
bool is_connected(const Attempt& attempt) { return is_open(attempt) && attempt.connected; }

void fail(Attempt& attempt, std::string why) {
  attempt.failure = std::move(why);
  attempt.socket.reset();
}

void begin(Attempt& attempt) {
  attempt.socket.reset(
      ::socket(attempt.address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!is_open(attempt)) {
    attempt.lacks_socket = errno != EAFNOSUPPORT;
    return fail(attempt, std::generic_category().message(errno));
  }
  tune(attempt.socket.get());
  if (::connect(attempt.socket.get(), attempt.address.raw(), attempt.address.length()) == 0) {
    attempt.connected = true;
  } else if (errno != EINPROGRESS) {
    fail(attempt, std::generic_category().message(errno));
  }
}

void finish_connect(Attempt& attempt) {
  int cause = 0;
  socklen_t length = sizeof cause;
  ::getsockopt(attempt.socket.get(), SOL_SOCKET, SO_ERROR, &cause, &length);
  attempt.connected = cause == 0;
  if (cause != 0) fail(attempt, std::generic_category().message(cause));
}

/// Connections to all candidates at once. Hands are shaken with the best that is connected; with
/// the next one too where that is silent, since a private address may lead to some other machine
/// than meant, which only the key tells.
class Race {
 public:
  Race(std::span<const SocketAddress> candidates, const JobKey& key, const Listener* own)
      : key_(key), own_(own) {
    for (const SocketAddress& address : candidates) {
      Attempt& attempt = attempts_.emplace_back();
      attempt.address = address;
      begin(attempt);
    }
  }

  Result<UniqueFd> run(Deadline deadline) {
    while (std::any_of(attempts_.begin(), attempts_.end(), is_open)) {
      shake_next_hand();
      HVD_TRY_ASSIGN(const auto ready, wait_for_any(deadline));
      for (Attempt* const attempt : ready) {
        if (advance(*attempt)) return std::move(attempt->socket);
      }
      // What has come counts, however late this thread got to look.
      if (ready.empty() && deadline.has_passed()) break;
    }
    return failure(deadline);
  }

 private:
  void shake_next_hand() {
    if (head_start_.is_forever() && std::any_of(attempts_.begin(), attempts_.end(), is_connected)) {
      head_start_ = Deadline::after(kHeadStart);
    }
    for (Attempt& attempt : attempts_) {
      if (!is_open(attempt)) continue;
      if (!attempt.connected && !head_start_.has_passed()) return;
      if (!attempt.connected) continue;
      if (!attempt.handshake) {
        attempt.handshake.emplace(Handshake::Side::kClient, key_);
        attempt.patience = Deadline::after(kPatience);
      }
      if (!attempt.patience.has_passed()) return;
    }
  }

  /// Those that can go on; kAborted when the own listener was interrupted.
  Result<std::vector<Attempt*>> wait_for_any(Deadline deadline) {
    // Events are not asked for: it reports nothing but that it was shut down.
    std::vector<pollfd> waits = {
        {.fd = own_ != nullptr ? own_->fd() : -1, .events = 0, .revents = 0}};
    std::vector<Attempt*> waiting;
    if (!head_start_.has_passed()) deadline = deadline.earlier(head_start_);
    for (Attempt& attempt : attempts_) {
      if (!is_open(attempt) || (attempt.connected && !attempt.handshake)) continue;
      const short events =
          attempt.connected ? attempt.handshake->wanted_events() : static_cast<short>(POLLOUT);
      waits.push_back({.fd = attempt.socket.get(), .events = events, .revents = 0});
      waiting.push_back(&attempt);
      if (!attempt.patience.has_passed()) deadline = deadline.earlier(attempt.patience);
    }
    std::vector<Attempt*> ready;
    if (::poll(waits.data(), waits.size(), deadline.poll_timeout_ms()) <= 0) return ready;
    if (waits[0].revents != 0) return error(Code::kAborted, "the connection was given up");
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      if (waits[i + 1].revents != 0) ready.push_back(waiting[i]);
    }
    return ready;
  }

  /// True when the other end is proven.
  static bool advance(Attempt& attempt) {
    if (!attempt.connected) {
      finish_connect(attempt);
      return false;
    }
    const auto proven = attempt.handshake->advance(attempt.socket.get());
    if (proven.is_ok()) return proven.value();
    attempt.wrong_key = proven.status().code() == Code::kMismatch;
    fail(attempt, proven.status().message());
    return false;
  }

  Status failure(Deadline deadline) const {
    Code code = deadline.has_passed() ? Code::kTimeout : Code::kPeerLost;
    std::string text;
    bool lacks_sockets = !attempts_.empty();
    for (const Attempt& attempt : attempts_) {
      if (attempt.wrong_key) code = Code::kMismatch;
      lacks_sockets = lacks_sockets && attempt.lacks_socket;
      std::string_view what = attempt.failure;
      if (what.empty()) what = attempt.connected ? "handshake: the peer is silent" : "no answer";
      text +=
          format_text("{}{}: {}", text.empty() ? "" : "; ", describe_route(attempt.address), what);
    }
    return error(lacks_sockets ? Code::kSystem : code, "cannot connect ({})", text);
  }

  const JobKey& key_;
  const Listener* own_;
  std::vector<Attempt> attempts_;
  Deadline head_start_ = kForever;  ///< Of better candidates than the first connected.
};

/// An error of a connection that was gone before it was taken, not of the listener; see accept(2).
bool is_of_newcomer(int cause) {
  constexpr std::array kCauses = {ECONNABORTED, EPROTO, ENETDOWN,     ENOPROTOOPT,
                                  EHOSTDOWN,    ENONET, EHOSTUNREACH, ENETUNREACH};
  return std::find(kCauses.begin(), kCauses.end(), cause) != kCauses.end();
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
    if (errno == EINTR || is_of_newcomer(errno)) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return UniqueFd();
    return Status::system("accept", errno);
  }
}

void Listener::interrupt() const { ::shutdown(socket_.get(), SHUT_RDWR); }

Result<UniqueFd> connect_authenticated(std::span<const SocketAddress> candidates, const JobKey& key,
                                       Deadline deadline, const Listener* own) {
  return Race(candidates, key, own).run(deadline);
}

}  // namespace hvd
