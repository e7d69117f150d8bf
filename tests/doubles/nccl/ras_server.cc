// SPDX-License-Identifier: Apache-2.0
#include "doubles/nccl/ras_server.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <map>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "base/unique_fd.h"
#include "doubles/nccl/double_nccl.h"

namespace double_nccl {
namespace {

struct Awaited {
  hvd::Mutex mutex;
  std::map<const void*, std::vector<int>> ranks HVD_GUARDED_BY(mutex);
};

/// Never destroyed: threads of stars use it until the process ends.
Awaited& awaited() {
  static auto* const made = new Awaited;
  return *made;
}

std::string status_text() {
  Awaited& all = awaited();
  const hvd::Lock lock(all.mutex);
  std::string text = "NCCL version 2.28.9 compiled with CUDA 12.9\n\nErrors\n======\n\n";
  int index = 0;
  for (const auto& [star, ranks] : all.ranks) {
    text += "#" + std::to_string(index++) + "-0 INCOMPLETE\n  Missing communicator data from ";
    text += std::to_string(ranks.size()) + " ranks\n";
    for (const int rank : ranks) text += "  Rank " + std::to_string(rank) + " has not arrived\n";
  }
  return text + "\n";
}

void say(int socket, const std::string& text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const ssize_t sent = send(socket, text.data() + at, text.size() - at, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;
    at += static_cast<std::size_t>(sent);
  }
}

/// One connection: lines in, answers out; a status ends it.
void converse(hvd::UniqueFd socket) {
  std::string in;
  char chunk[512];
  for (;;) {
    const ssize_t got = recv(socket.get(), chunk, sizeof(chunk), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    in.append(chunk, static_cast<std::size_t>(got));
    for (auto end = in.find('\n'); end != std::string::npos; end = in.find('\n')) {
      const std::string line = in.substr(0, end);
      in.erase(0, end + 1);
      if (line.starts_with("CLIENT PROTOCOL ")) {
        say(socket.get(), "SERVER PROTOCOL 2\n");
      } else if (line.starts_with("TIMEOUT ") || line.starts_with("SET FORMAT ")) {
        say(socket.get(), "OK\n");
      } else if (line == "STATUS" || line == "VERBOSE STATUS") {
        return say(socket.get(), status_text());
      } else {
        return say(socket.get(), "ERROR: Unknown command\n");
      }
    }
  }
}

void serve(hvd::UniqueFd listener) {
  for (;;) {
    hvd::UniqueFd socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket.is_open() && errno != EINTR) return;
    if (socket.is_open()) converse(std::move(socket));
  }
}

int port_of(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  char port[16] = "";
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&address), length, nullptr, 0, port, sizeof(port),
                  NI_NUMERICSERV) != 0) {
    return -1;
  }
  return static_cast<int>(std::strtol(port, nullptr, 10));
}

}  // namespace

int serve_ras(const std::string& address) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos) return -1;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.substr(0, colon).c_str(), address.substr(colon + 1).c_str(), &hints,
                  &found) != 0) {
    return -1;
  }
  hvd::UniqueFd listener(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  const bool listens = bind(listener.get(), found->ai_addr, found->ai_addrlen) == 0 &&
                       listen(listener.get(), 16) == 0;
  freeaddrinfo(found);
  if (!listens) return -1;  // NCCL, too, leaves the port to the first process of a node
  const int port = port_of(listener.get());
  std::thread(serve, std::move(listener)).detach();
  return port;
}

void report_awaited(const void* star, const std::vector<int>& ranks) {
  Awaited& all = awaited();
  const hvd::Lock lock(all.mutex);
  if (ranks.empty()) {
    all.ranks.erase(star);
  } else {
    all.ranks[star] = ranks;
  }
}

}  // namespace double_nccl

int double_nccl_ras(const char* address) { return double_nccl::serve_ras(address); }
