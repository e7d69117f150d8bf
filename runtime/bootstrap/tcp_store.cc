// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/tcp_store.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <memory>
#include <utility>

#include "bootstrap/file_store.h"
#include "transport/listener.h"
#include "transport/socket_io.h"

namespace hvd {

using store_message::Reply;
using store_message::Request;
using store_message::Verb;

Result<std::unique_ptr<TcpStore>> TcpStore::connect_once(std::span<const SocketAddress> addresses,
                                                         const JobKey& key, Deadline deadline) {
  HVD_TRY_ASSIGN(UniqueFd socket, connect_authenticated(addresses, key, deadline));
  return std::make_unique<TcpStore>(std::move(socket));
}

Result<std::unique_ptr<TcpStore>> TcpStore::connect(std::span<const SocketAddress> addresses,
                                                    const JobKey& key, Deadline deadline) {
  int step_ms = 1;
  for (;;) {
    auto store =
        connect_once(addresses, key, deadline.earlier(Deadline::after(std::chrono::seconds(5))));
    if (store.is_ok()) return store;
    // A wrong key stays wrong.
    if (store.status().code() == Code::kMismatch || deadline.has_passed()) {
      return store.status().with_context("the store of the job");
    }
    back_off(step_ms, deadline);
  }
}

namespace {

/// The server knows who is missing and answers at the deadline; the grace is for its answer.
Deadline with_grace(Deadline deadline) {
  if (deadline.is_forever()) return deadline;
  return Deadline::at(std::max(deadline.time(), Clock::now()) + std::chrono::seconds(2));
}

std::uint64_t milliseconds_to(Deadline deadline) {
  const auto left = deadline.is_forever() ? Clock::duration(std::chrono::hours(24 * 365))
                                          : deadline.time() - Clock::now();
  return static_cast<std::uint64_t>(
      std::max<long long>(0, std::chrono::ceil<std::chrono::milliseconds>(left).count()));
}

Result<std::vector<std::string>> check_values(std::vector<std::string> values, int size) {
  if (static_cast<int>(values.size()) == size) return values;
  return error(Code::kInternal, "the store gave {} values for {} ranks", values.size(), size);
}

}  // namespace

Status TcpStore::send(const Request& request, Deadline deadline) {
  if (!socket_.is_open()) {
    return error(Code::kPeerLost, "the connection to the store of the job is gone");
  }
  Status sent = send_frame(socket_.get(), encode(request), deadline, "a request to the store");
  if (sent.is_ok()) return sent;
  socket_.reset();
  return sent.with_context("the store of the job");
}

Result<Reply> TcpStore::receive(Deadline deadline) {
  const auto frame = receive_frame(socket_.get(), store_message::kMaxReplyBytes, deadline,
                                   "the answer of the store");
  if (!frame.is_ok()) {
    socket_.reset();  // A late answer must not be taken for that to the next request.
    return frame.status().with_context("the store of the job");
  }
  return store_message::decode_reply(frame.value());
}

Result<Reply> TcpStore::exchange(Request request, Deadline deadline) {
  request.timeout_ms = milliseconds_to(deadline);
  return exchange_until(std::move(request), deadline);
}

Result<Reply> TcpStore::exchange_until(Request request, Deadline deadline) {
  const Lock lock(mutex_);
  const Deadline grace = with_grace(deadline);
  HVD_TRY(send(request, grace));
  if (watches_) {
    watches_ = false;
    HVD_TRY(receive(grace).status());  // Where it is a failure, so is the next answer.
  }
  return receive(grace);
}

Result<Reply> TcpStore::ask(Request request, Deadline deadline) {
  HVD_TRY_ASSIGN(Reply reply, exchange(std::move(request), deadline));
  if (reply.code != Code::kOk) return Status(reply.code, std::move(reply.text));
  return reply;
}

Result<store_message::Place> TcpStore::enter(const Process& process,
                                             std::chrono::milliseconds patience) {
  HVD_TRY_ASSIGN(const Reply reply,
                 exchange_until({.verb = Verb::kEnter,
                                 .value = process.node,
                                 .who = process.who,
                                 .rank = process.number,
                                 .size = process.number + 1,
                                 .timeout_ms = static_cast<std::uint64_t>(patience.count()),
                                 .epoch = process.epoch,
                                 .status = process.lost},
                                kForever));
  if (reply.code != Code::kOk) return Status(reply.code, reply.text);
  if (reply.values.size() != 1) return error(Code::kInternal, "the store gave no place");
  return store_message::decode_place(reply.values.front());
}

Status TcpStore::begin_watch(const Request& request, Deadline deadline) {
  const Lock lock(mutex_);
  HVD_TRY(send(request, deadline));
  watches_ = true;
  return Status::ok();
}

Result<Reply> TcpStore::end_watch() {
  watches_ = false;
  return receive(Deadline::after(std::chrono::seconds(2)));
}

Status TcpStore::await_newcomers(Deadline deadline) {
  return begin_watch({.verb = Verb::kAwaitNewcomers}, deadline);
}

Result<bool> TcpStore::has_newcomers() {
  const Lock lock(mutex_);
  pollfd answer{.fd = socket_.get(), .events = POLLIN, .revents = 0};
  if (!watches_ || ::poll(&answer, 1, 0) <= 0) return false;
  HVD_TRY_ASSIGN(const Reply reply, end_watch());
  if (reply.code != Code::kOk) return Status(reply.code, reply.text);
  return true;
}

Status TcpStore::attend(int process, std::string_view host, Deadline deadline) {
  end_when_unanswered(descriptor(), store_message::kSilenceOfServer);
  return begin_watch(
      {.verb = Verb::kAttend, .key = std::string(host), .rank = process, .size = process + 1},
      deadline);
}

int TcpStore::descriptor() {
  const Lock lock(mutex_);
  return socket_.get();
}

Result<bool> TcpStore::has_order() {
  const Lock lock(mutex_);
  if (!watches_) return false;
  HVD_TRY_ASSIGN(const Reply reply, end_watch());
  if (reply.code == Code::kAborted) return true;
  return Status(reply.code == Code::kOk ? Code::kInternal : reply.code, reply.text);
}

Result<std::optional<int>> TcpStore::ended(int process, int status, const std::string& why,
                                           Deadline deadline) {
  HVD_TRY_ASSIGN(const Reply reply, ask({.verb = Verb::kEnded,
                                         .value = why,
                                         .rank = process,
                                         .size = process + 1,
                                         .status = status},
                                        deadline));
  if (reply.values.empty()) return std::optional<int>();
  const std::string& text = reply.values.front();
  int successor = -1;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), successor);
  if (parsed.ec != std::errc() || successor < 0 || successor >= store_message::kMaxRanks) {
    return error(Code::kInternal, "the store gave no valid number of a process");
  }
  return std::optional(successor);
}

Result<std::vector<std::string>> TcpStore::join(const Rank& rank, std::string_view value,
                                                Deadline deadline) {
  HVD_TRY_ASSIGN(Reply reply, ask({.verb = Verb::kJoin,
                                   .key = "join",
                                   .value = std::string(value),
                                   .who = rank.who,
                                   .rank = rank.rank,
                                   .size = rank.size,
                                   .epoch = rank.epoch},
                                  deadline));
  return check_values(std::move(reply.values), rank.size);
}

Status TcpStore::fail(const Rank& rank, const Status& why, Deadline deadline) {
  const auto reply = exchange({.verb = Verb::kFail,
                               .value = why.message(),
                               .who = rank.who,
                               .code = why.code(),
                               .rank = rank.rank,
                               .size = rank.size},
                              deadline);
  if (!reply.is_ok() || reply.value().code == Code::kOk) return why;
  return {reply.value().code, reply.value().text};
}

Status TcpStore::watch(Deadline deadline) { return begin_watch({.verb = Verb::kWatch}, deadline); }

Status TcpStore::await_failure(int stop) {
  int fd = -1;
  {
    const Lock lock(mutex_);
    fd = socket_.get();
  }
  std::array<pollfd, 2> waits{
      {{.fd = stop, .events = POLLIN, .revents = 0}, {.fd = fd, .events = POLLIN, .revents = 0}}};
  while (::poll(waits.data(), waits.size(), -1) < 0 && errno == EINTR) {
  }
  if (waits[0].revents != 0 || waits[1].revents == 0) return Status::ok();
  const Lock lock(mutex_);
  HVD_TRY_ASSIGN(const Reply reply, end_watch());
  return {reply.code, reply.text};
}

Status TcpStore::set(std::string_view key, std::string_view value, Deadline deadline) {
  const auto reply =
      ask({.verb = Verb::kSet, .key = std::string(key), .value = std::string(value)}, deadline);
  return reply.status();
}

Result<std::string> TcpStore::wait(std::string_view key, Deadline deadline) {
  HVD_TRY_ASSIGN(Reply reply, ask({.verb = Verb::kWait, .key = std::string(key)}, deadline));
  if (reply.values.size() != 1) return error(Code::kInternal, "the store gave no value");
  return std::move(reply.values.front());
}

Result<std::vector<std::string>> TcpStore::allgather(std::string_view round, int rank, int size,
                                                     std::string_view value, Deadline deadline) {
  HVD_TRY_ASSIGN(Reply reply, ask({.verb = Verb::kGather,
                                   .key = std::string(round),
                                   .value = std::string(value),
                                   .rank = rank,
                                   .size = size},
                                  deadline));
  return check_values(std::move(reply.values), size);
}

}  // namespace hvd
