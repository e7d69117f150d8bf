// SPDX-License-Identifier: Apache-2.0
#include "transport/fd_passing.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/socket_io.h"

namespace hvd {
namespace {

/// The kernel takes at most 253 at a time.
constexpr std::size_t kFdsPerMessage = 64;

struct alignas(cmsghdr) ControlBuffer {
  std::array<char, CMSG_SPACE(kFdsPerMessage * sizeof(int))> bytes{};
};

Status wait_for(int socket, short events, Deadline deadline) {
  HVD_TRY_ASSIGN(const bool ready, wait_ready(socket, events, deadline));
  if (!ready) return error(Code::kTimeout, "timed out passing descriptors to a local rank");
  return Status::ok();
}

Status send_some_fds(int socket, std::span<const int> fds, Deadline deadline) {
  ControlBuffer control;
  char byte = 'F';
  iovec part{&byte, 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = CMSG_SPACE(fds.size_bytes());
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(fds.size_bytes());
  std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  while (::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      HVD_TRY(wait_for(socket, POLLOUT, deadline));
    } else if (errno != EINTR) {
      return Status::system("cannot pass descriptors to a local rank (check `ulimit -n`)", errno);
    }
  }
  return Status::ok();
}

/// Takes every descriptor of a message, wanted or not, so that none is lost open.
void take_fds(msghdr& message, std::vector<UniqueFd>& fds) {
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
      fds.emplace_back(fd);
    }
  }
}

}  // namespace

Status send_fds(int socket, std::span<const int> fds, Deadline deadline) {
  while (!fds.empty()) {
    const std::size_t count = std::min(fds.size(), kFdsPerMessage);
    HVD_TRY(send_some_fds(socket, fds.first(count), deadline));
    fds = fds.subspan(count);
  }
  return Status::ok();
}

Result<std::vector<UniqueFd>> receive_fds(int socket, std::size_t count, Deadline deadline) {
  std::vector<UniqueFd> fds;
  while (fds.size() < count) {
    ControlBuffer control;
    char byte = 0;
    iovec part{&byte, 1};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes.data();
    message.msg_controllen = control.bytes.size();
    const auto got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      HVD_TRY(wait_for(socket, POLLIN, deadline));
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Status::system("cannot receive descriptors of a local rank", errno);
    if (got == 0) return error(Code::kPeerLost, "a local rank left while passing descriptors");
    const std::size_t before = fds.size();
    take_fds(message, fds);
    if ((message.msg_flags & MSG_CTRUNC) != 0) {
      return error(Code::kSystem,
                   "too many open descriptors in this process; raise `ulimit -n` and try again");
    }
    if (fds.size() == before || fds.size() > count) {
      return error(Code::kInternal, "a local rank passed {} descriptors instead of {}", fds.size(),
                   count);
    }
  }
  return fds;
}

}  // namespace hvd
