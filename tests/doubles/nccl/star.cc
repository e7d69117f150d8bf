// SPDX-License-Identifier: Apache-2.0
#include "doubles/nccl/star.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "doubles/nccl/controls.h"
#include "doubles/nccl/message.h"
#include "doubles/nccl/ras_server.h"
#include "doubles/nccl/rounds.h"

namespace double_nccl {
namespace {

struct Client {
  hvd::UniqueFd socket;
  Hello hello;
  bool joined = false;
  bool left = false;
  Bytes in;
  Bytes out;
};

/// The middle of the star. One thread only, its own.
class Star {
 public:
  explicit Star(hvd::UniqueFd listener) : listener_(std::move(listener)) {}
  void run();

 private:
  bool is_over() const;
  void accept_one();
  void read_from(Client& client);
  void take_frames(Client& client);
  void take(Client& client, const Frame& frame, Bytes payload);
  void join(Client& client);
  std::string objection(const Client& newcomer) const;
  void write_to(Client& client);
  void lose(Client& client);
  void send(Client& client, const Frame& frame, const Bytes& payload);
  void fail_all(ncclResult_t code, const std::string& text);
  void send_failure(Client& client);

  hvd::UniqueFd listener_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::unique_ptr<Rounds> rounds_;
  int joined_ = 0;
  ncclResult_t failure_ = ncclSuccess;
  std::string failure_text_;
};

void Star::run() {
  while (!is_over()) {
    std::vector<pollfd> polled{{listener_.get(), POLLIN, 0}};
    for (const auto& client : clients_) {
      const short events = client->out.empty() ? POLLIN : POLLIN | POLLOUT;
      polled.push_back({client->socket.get(), events, 0});  // a closed one is -1: poll skips it
    }
    if (poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return;
    for (std::size_t i = 1; i < polled.size(); ++i) {
      Client& client = *clients_[i - 1];
      if ((polled[i].revents & POLLOUT) != 0) write_to(client);
      if ((polled[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0) read_from(client);
    }
    if ((polled[0].revents & POLLIN) != 0) accept_one();
    if (rounds_) report_awaited(this, rounds_->awaited());
  }
  report_awaited(this, {});
}

bool Star::is_over() const {
  if (clients_.empty()) return false;
  for (const auto& client : clients_) {
    if (client->socket.is_open()) return false;
  }
  // Ranks of a broken communicator that come late find no socket, which says the same.
  return failure_ != ncclSuccess || joined_ == clients_[0]->hello.size;
}

void Star::accept_one() {
  hvd::UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.is_open()) return;
  clients_.push_back(std::make_unique<Client>());
  clients_.back()->socket = std::move(socket);
}

void Star::read_from(Client& client) {
  std::byte chunk[65536];
  while (client.socket.is_open()) {
    const ssize_t got = recv(client.socket.get(), chunk, sizeof(chunk), 0);
    if (got > 0) {
      client.in.insert(client.in.end(), chunk, chunk + got);
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    take_frames(client);
    return lose(client);
  }
  take_frames(client);
}

void Star::take_frames(Client& client) {
  std::size_t at = 0;
  while (client.in.size() - at >= sizeof(Frame)) {
    Frame frame;
    std::memcpy(&frame, &client.in[at], sizeof(frame));
    if (client.in.size() - at - sizeof(frame) < frame.bytes) break;
    at += sizeof(frame);
    const auto begin = client.in.begin() + static_cast<std::ptrdiff_t>(at);
    take(client, frame, Bytes(begin, begin + static_cast<std::ptrdiff_t>(frame.bytes)));
    at += frame.bytes;
  }
  client.in.erase(client.in.begin(), client.in.begin() + static_cast<std::ptrdiff_t>(at));
}

void Star::take(Client& client, const Frame& frame, Bytes payload) {
  if (frame.kind == FrameKind::kHello) {
    std::memcpy(&client.hello, payload.data(), sizeof(client.hello));
    return join(client);
  }
  if (failure_ != ncclSuccess) return;
  std::vector<Reply> replies;
  if (frame.kind == FrameKind::kBye) {
    client.left = true;
    for (const auto& other : clients_) send(*other, frame, {});
    Frame told;
    told.kind = FrameKind::kResult;
    told.ticket = frame.ticket;
    send(client, told, {});
    replies = rounds_->leave(client.hello.rank);
  } else {
    replies = rounds_->add(client.hello.rank, frame, std::move(payload));
  }
  if (!rounds_->complaint().empty()) {
    complain(rounds_->complaint());
    return fail_all(ncclInvalidUsage, rounds_->complaint());
  }
  for (const Reply& reply : replies) {
    for (const auto& other : clients_) {
      if (other->hello.rank == reply.rank) send(*other, reply.frame, reply.payload);
    }
  }
}

std::string Star::objection(const Client& newcomer) const {
  const Hello& mine = newcomer.hello;
  const std::string me = "rank " + std::to_string(mine.rank);
  for (const auto& client : clients_) {
    const Hello& theirs = client->hello;
    const std::string them = "rank " + std::to_string(theirs.rank);
    if (client.get() == &newcomer || !client->joined) continue;
    if (theirs.rank == mine.rank) return "two ranks call themselves " + me;
    if (theirs.size != mine.size) return me + " and " + them + " differ in the number of ranks";
    if (theirs.version != mine.version) {
      return "Mismatched NCCL version detected : rank " + std::to_string(mine.rank) + " version " +
             std::to_string(mine.version) + " " + them + " version " +
             std::to_string(theirs.version);
    }
    if (std::strcmp(theirs.gpu, mine.gpu) == 0) {
      return "Duplicate GPU detected : " + me + " and " + them + " both on CUDA device " + mine.gpu;
    }
  }
  return "";
}

void Star::join(Client& client) {
  client.joined = true;
  ++joined_;
  if (failure_ != ncclSuccess) return send_failure(client);
  const std::string text = objection(client);
  if (!text.empty()) return fail_all(ncclInvalidUsage, text);
  if (joined_ < client.hello.size) return;
  rounds_ = std::make_unique<Rounds>(client.hello.size, make_star);
  Frame ready;
  ready.kind = FrameKind::kReady;
  for (const auto& other : clients_) send(*other, ready, {});
}

void Star::lose(Client& client) {
  client.socket.reset();
  if (!client.joined || client.left || failure_ != ncclSuccess) return;
  if (are_deaths_silent()) return;
  fail_all(death_code(), "rank " + std::to_string(client.hello.rank) + " has gone");
}

void Star::fail_all(ncclResult_t code, const std::string& text) {
  failure_ = code;
  failure_text_ = text;
  for (const auto& client : clients_) send_failure(*client);
}

void Star::send_failure(Client& client) {
  Frame frame;
  frame.kind = FrameKind::kFailed;
  frame.code = failure_;
  frame.bytes = failure_text_.size();
  Bytes payload(failure_text_.size());
  std::memcpy(payload.data(), failure_text_.data(), payload.size());
  send(client, frame, payload);
}

void Star::send(Client& client, const Frame& frame, const Bytes& payload) {
  if (!client.socket.is_open()) return;
  const auto* bytes = reinterpret_cast<const std::byte*>(&frame);
  client.out.insert(client.out.end(), bytes, bytes + sizeof(frame));
  client.out.insert(client.out.end(), payload.begin(), payload.end());
  write_to(client);
}

void Star::write_to(Client& client) {
  std::size_t at = 0;
  while (client.socket.is_open() && at < client.out.size()) {
    const ssize_t sent =
        ::send(client.socket.get(), &client.out[at], client.out.size() - at, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) break;  // full; or gone, which the next read tells
    at += static_cast<std::size_t>(sent);
  }
  client.out.erase(client.out.begin(), client.out.begin() + static_cast<std::ptrdiff_t>(at));
}

}  // namespace

std::string socket_of(const ncclUniqueId& id) {
  return {id.internal, strnlen(id.internal, sizeof(id.internal))};
}

ncclUniqueId make_star() {
  static std::atomic<unsigned> made{0};
  ncclUniqueId id{};
  const std::string name =
      "nccl-double-" + std::to_string(getpid()) + "-" + std::to_string(made.fetch_add(1));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  hvd::UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.is_open() ||
      bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      listen(listener.get(), SOMAXCONN) != 0) {
    return id;
  }
  std::memcpy(id.internal, name.data(), name.size());
  // Outlives whoever asked for it: nobody joins the threads of a library.
  std::thread([star = std::make_shared<Star>(std::move(listener))] { star->run(); }).detach();
  return id;
}

}  // namespace double_nccl
