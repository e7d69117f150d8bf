// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/tcp_store.h"

#include <algorithm>
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

Result<Reply> TcpStore::ask(Request request, Deadline deadline) {
  const Lock lock(mutex_);
  if (!socket_.is_open()) {
    return error(Code::kPeerLost, "the connection to the store of the job is gone");
  }
  const auto left = deadline.is_forever() ? Clock::duration(std::chrono::hours(24 * 365))
                                          : deadline.time() - Clock::now();
  request.timeout_ms = static_cast<std::uint64_t>(
      std::max<long long>(0, std::chrono::ceil<std::chrono::milliseconds>(left).count()));
  // The server knows who is missing and answers at the deadline; the grace is for its answer.
  const Deadline grace =
      deadline.is_forever()
          ? deadline
          : Deadline::at(std::max(deadline.time(), Clock::now()) + std::chrono::seconds(2));
  const auto sent = send_frame(socket_.get(), encode(request), grace, "a request to the store");
  auto frame = sent.is_ok() ? receive_frame(socket_.get(), store_message::kMaxReplyBytes, grace,
                                            "the answer of the store")
                            : Result<Bytes>(sent);
  if (!frame.is_ok()) {
    socket_.reset();  // A late answer must not be taken for that to the next request.
    return frame.status().with_context("the store of the job");
  }
  HVD_TRY_ASSIGN(Reply reply, store_message::decode_reply(frame.value()));
  if (reply.code != Code::kOk) return Status(reply.code, std::move(reply.text));
  return reply;
}

Status TcpStore::set(std::string_view key, std::string_view value, Deadline deadline) {
  const auto reply =
      ask({.verb = Verb::kSet, .key = std::string(key), .value = std::string(value)}, deadline);
  return reply.status();
}

Result<std::string> TcpStore::wait(std::string_view key, Deadline deadline) {
  HVD_TRY_ASSIGN(Reply reply,
                 ask({.verb = Verb::kWait, .key = std::string(key), .value = {}}, deadline));
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
  if (static_cast<int>(reply.values.size()) != size) {
    return error(Code::kInternal, "the store gave {} values for {} ranks", reply.values.size(),
                 size);
  }
  return std::move(reply.values);
}

}  // namespace hvd
