// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/nccl_ras.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <span>
#include <vector>

#include "base/unique_fd.h"
#include "transport/socket_address.h"
#include "transport/socket_io.h"

namespace hvd {
namespace {

constexpr std::size_t kMaxAnswer = std::size_t{1} << 20;
constexpr int kMaxLines = 20;

/// Numeric, or a name, at whose first address NCCL listens: of "localhost" that is ::1 on many
/// hosts. Not all processes of a host need to see its addresses in one order, though.
Result<std::vector<SocketAddress>> addresses_of(const std::string& place) {
  auto numeric = SocketAddress::parse(place);
  if (numeric.is_ok()) return std::vector{std::move(numeric).value()};
  const auto colon = place.rfind(':');
  if (colon == std::string::npos) return numeric.status();
  const std::string port = place.substr(colon + 1);
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* all = nullptr;
  const int failure = ::getaddrinfo(place.substr(0, colon).c_str(), port.c_str(), &wanted, &all);
  if (failure != 0) {
    return error(Code::kInvalidArgument, "{}: {}", place, ::gai_strerror(failure));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(all, &::freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* one = all; one != nullptr; one = one->ai_next) {
    std::array<char, NI_MAXHOST> host{};
    const int unnamed = ::getnameinfo(one->ai_addr, one->ai_addrlen, host.data(), host.size(),
                                      nullptr, 0, NI_NUMERICHOST);
    auto address = SocketAddress::parse(format_text("[{}]:{}", host.data(), port));
    if (unnamed == 0 && address.is_ok()) addresses.push_back(std::move(address).value());
  }
  if (addresses.empty()) return numeric.status();
  return addresses;
}

Result<UniqueFd> connect_to(const SocketAddress& address, Deadline deadline) {
  UniqueFd fd(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_open()) return Status::system("socket", errno);
  if (::connect(fd.get(), address.raw(), address.length()) == 0) return fd;
  if (errno != EINPROGRESS) return Status::system(address.to_string(), errno);
  HVD_TRY_ASSIGN(const bool ready, wait_ready(fd.get(), POLLOUT, deadline));
  if (!ready) return error(Code::kTimeout, "{} does not answer", address.to_string());
  int failure = 0;
  socklen_t length = sizeof failure;
  ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &failure, &length);
  if (failure != 0) return Status::system(address.to_string(), failure);
  return fd;
}

Result<UniqueFd> connect_to_any(const std::string& place, Deadline deadline) {
  HVD_TRY_ASSIGN(const std::vector<SocketAddress> addresses, addresses_of(place));
  auto connected = connect_to(addresses.front(), deadline);
  for (std::size_t i = 1; i < addresses.size() && !connected.is_ok(); ++i) {
    connected = connect_to(addresses[i], deadline);
  }
  return connected;
}

/// All that comes until the other end closes.
Result<std::string> read_all(int fd, Deadline deadline) {
  std::string text;
  std::array<char, 4096> chunk;
  while (text.size() < kMaxAnswer) {
    HVD_TRY_ASSIGN(const bool ready, wait_ready(fd, POLLIN, deadline));
    if (!ready) return error(Code::kTimeout, "its answer does not end");
    const ssize_t got = ::recv(fd, chunk.data(), chunk.size(), 0);
    if (got == 0) break;
    if (got > 0) {
      text.append(chunk.data(), static_cast<std::size_t>(got));
    } else if (errno != EINTR && errno != EAGAIN) {
      return Status::system("its answer", errno);
    }
  }
  return text;
}

}  // namespace

Result<std::string> ask_ras(const std::string& address, Deadline deadline) {
  HVD_TRY_ASSIGN(const UniqueFd fd, connect_to_any(address, deadline));
  // It waits for other nodes, at most so many seconds; an answer to each line is in the text.
  constexpr std::string_view kQuestion = "CLIENT PROTOCOL 2\nTIMEOUT 3\nSTATUS\n";
  HVD_TRY(send_all(fd.get(), std::as_bytes(std::span(kQuestion)), deadline, "NCCL's RAS"));
  return read_all(fd.get(), deadline);
}

std::string ras_findings(std::string_view answer) {
  std::size_t begin = answer.find("\nErrors\n");
  if (begin == std::string_view::npos) begin = answer.find("\nWarnings\n");
  if (begin == std::string_view::npos) return {};
  std::string findings;
  int lines = 0;
  for (std::string_view rest = answer.substr(begin + 1); !rest.empty() && lines < kMaxLines;) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.find_first_not_of("= ") == std::string_view::npos) continue;
    findings += (findings.empty() ? "" : "\n") + std::string(line);
    ++lines;
  }
  return findings;
}

}  // namespace hvd
