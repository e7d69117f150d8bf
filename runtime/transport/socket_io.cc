// SPDX-License-Identifier: Apache-2.0
#include "transport/socket_io.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace hvd {
namespace {

Status wait_or_time_out(int fd, short events, Deadline deadline, std::string_view what) {
  HVD_TRY_ASSIGN(const bool ready, wait_ready(fd, events, deadline));
  if (!ready) return error(Code::kTimeout, "timed out waiting for {}", what);
  return Status::ok();
}

Status lost(std::string_view what, int error_number) {
  return error(Code::kPeerLost, "lost the connection during {}: {}", what,
               error_number == 0 ? std::string("the peer closed it")
                                 : std::generic_category().message(error_number));
}

}  // namespace

Result<bool> wait_ready(int fd, short events, Deadline deadline) {
  for (;;) {
    pollfd entry{.fd = fd, .events = events, .revents = 0};
    const int count = ::poll(&entry, 1, deadline.poll_timeout_ms());
    if (count > 0) return true;
    if (count == 0) return false;
    if (errno != EINTR) return Status::system("poll", errno);
  }
}

Status send_all(int fd, std::span<const std::byte> bytes, Deadline deadline,
                std::string_view what) {
  while (!bytes.empty()) {
    const auto sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      HVD_TRY(wait_or_time_out(fd, POLLOUT, deadline, what));
    } else if (errno != EINTR) {
      return lost(what, errno);
    }
  }
  return Status::ok();
}

Status receive_all(int fd, std::span<std::byte> bytes, Deadline deadline, std::string_view what) {
  while (!bytes.empty()) {
    const auto received = ::recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (received > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(received));
    } else if (received == 0) {
      return lost(what, 0);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      HVD_TRY(wait_or_time_out(fd, POLLIN, deadline, what));
    } else if (errno != EINTR) {
      return lost(what, errno);
    }
  }
  return Status::ok();
}

Status send_frame(int fd, std::span<const std::byte> message, Deadline deadline,
                  std::string_view what) {
  ByteWriter frame;
  frame.put(static_cast<std::uint32_t>(message.size()));
  frame.put_raw(message);
  return send_all(fd, frame.bytes(), deadline, what);
}

Result<Bytes> receive_frame(int fd, std::size_t limit, Deadline deadline, std::string_view what) {
  std::uint32_t length = 0;
  HVD_TRY(receive_all(fd, std::as_writable_bytes(std::span(&length, 1)), deadline, what));
  if (length > limit) {
    return error(Code::kInternal, "{}: a message of {} bytes announced, the limit is {}", what,
                 length, limit);
  }
  Bytes message(length);
  HVD_TRY(receive_all(fd, message, deadline, what));
  return message;
}

void end_when_unanswered(int fd, int seconds) {
  const auto set = [fd](int level, int option, int value) {
    ::setsockopt(fd, level, option, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(IPPROTO_TCP, TCP_KEEPCNT, seconds - 1);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT,
      seconds * 1000);  // Bytes that wait for an answer stop the questions.
}

}  // namespace hvd
