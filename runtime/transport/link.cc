// SPDX-License-Identifier: Apache-2.0
#include "transport/link.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <system_error>
#include <utility>

#include "transport/interfaces.h"

namespace hvd {
namespace {

/// A single probe may be lost on a busy network.
constexpr int kUnansweredProbes = 2;

/// The kernel asks a quiet peer once a second, and never ends the connection by itself before
/// somebody here has judged it.
void keep_asking(int fd) {
  const auto set = [fd](int level, int option, int value) {
    ::setsockopt(fd, level, option, &value, sizeof value);
  };
  constexpr int kMostProbes = 127;  // what Linux takes
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(IPPROTO_TCP, TCP_KEEPCNT, kMostProbes);
}

}  // namespace

Link::Link(UniqueFd socket, int peer_rank, std::string peer_host)
    : socket_(std::move(socket)), peer_rank_(peer_rank), peer_host_(std::move(peer_host)) {
  const int flags = ::fcntl(socket_.get(), F_GETFL);
  HVD_CHECK(flags >= 0);
  ::fcntl(socket_.get(), F_SETFL, flags | O_NONBLOCK);
  keep_asking(socket_.get());
}

std::chrono::milliseconds Link::unanswered() const {
  tcp_info info{};
  socklen_t length = sizeof info;
  if (::getsockopt(fd(), IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return {};
  if (info.tcpi_retransmits + info.tcpi_probes < kUnansweredProbes) return {};
  return std::chrono::milliseconds(std::min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv));
}

std::string Link::describe_silence(std::chrono::milliseconds silence) const {
  return format_text(
      "no answer for {:.1f} s on the connection from {} here to {}: the host, its network "
      "interface or the network between is down",
      static_cast<double>(silence.count()) / 1000.0, interface_of_socket(fd()),
      peer_address_of_socket(fd()));
}

void Link::shut_down() const { ::shutdown(fd(), SHUT_RDWR); }

Result<std::size_t> Link::send_some(std::span<const std::byte> bytes) {
  const iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  return send_some(std::span(&part, 1));
}

Result<std::size_t> Link::send_some(std::span<const iovec> parts) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = std::min<std::size_t>(parts.size(), IOV_MAX);
  for (;;) {
    const auto sent = ::sendmsg(fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::size_t{0};
    return lost(errno);
  }
}

Result<std::size_t> Link::receive_some(std::span<std::byte> bytes) {
  if (bytes.empty()) return std::size_t{0};
  for (;;) {
    const auto received = ::recv(fd(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (received > 0) return static_cast<std::size_t>(received);
    if (received == 0) return lost(0);
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::size_t{0};
    return lost(errno);
  }
}

Result<std::size_t> Link::receive_parts(std::span<const iovec> parts) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = std::min<std::size_t>(parts.size(), IOV_MAX);
  for (;;) {
    const auto received = ::recvmsg(fd(), &message, MSG_DONTWAIT);
    if (received > 0) return static_cast<std::size_t>(received);
    if (received == 0) return lost(0);
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::size_t{0};
    return lost(errno);
  }
}

Status Link::lost(int error_number) const {
  // The peer may be well: the bytes of a tensor go straight to the kernel.
  if (error_number == EFAULT) {
    return error(
        Code::kSystem,
        "memory for bytes to or from rank {} on {} cannot be used ({}): keep a tensor until "
        "its operation is over, and give one that may be written",
        peer_rank_, peer_host_, std::generic_category().message(error_number));
  }
  const std::string cause = error_number == 0 ? std::string("the peer closed it")
                                              : std::generic_category().message(error_number);
  return error(Code::kPeerLost, "connection to rank {} on {} is lost: {}", peer_rank_, peer_host_,
               cause);
}

}  // namespace hvd
