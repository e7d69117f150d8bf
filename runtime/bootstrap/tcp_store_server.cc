// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/tcp_store_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/descriptor_limit.h"
#include "base/log.h"
#include "base/mutex.h"
#include "bootstrap/local_host.h"
#include "bootstrap/store_board.h"
#include "transport/handshake.h"
#include "transport/interfaces.h"
#include "transport/socket_io.h"

namespace hvd {
namespace {

constexpr auto kHandshakeTime = std::chrono::seconds(5);
constexpr auto kDrainTime = std::chrono::seconds(5);
constexpr std::size_t kMaxConnections = 65536;
/// How many are asked for when there are none left.
constexpr std::size_t kMoreDescriptors = 1024;
constexpr std::size_t kSomeDescriptors = 64;

struct Connection {
  UniqueFd socket;
  std::optional<Handshake> handshake;
  Deadline proven_by;
  Bytes received = {};
  Bytes unsent = {};
};

/// The poll loop and everything it owns.
class Loop {
 public:
  using News = TcpStoreServer::News;
  using OnEvent = TcpStoreServer::OnEvent;

  Loop(Listener listener, int stop, UniqueFd bell, const JobKey& key,
       const std::optional<RosterPlan>& plan, OnEvent on_event)
      : listener_(std::move(listener)),
        stop_(stop),
        bell_(std::move(bell)),
        key_(key),
        board_(plan),
        on_event_(std::move(on_event)) {}

  /// From any thread.
  bool has_served() const { return has_served_.load(); }
  /// From any thread.
  void tell(News news) {
    {
      Lock lock(mutex_);
      news_.push_back(std::move(news));
    }
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(bell_.get(), &one, sizeof one);
  }

  void run() {
    while (step(false)) {
    }
    const Deadline drained = Deadline::after(kDrainTime);
    while (has_unsent() && !drained.has_passed() && step(true)) {
    }
  }

 private:
  bool has_unsent() const {
    for (const auto& [id, connection] : connections_) {
      if (!connection.unsent.empty()) return true;
    }
    return false;
  }

  Deadline next_deadline(bool draining) const {
    Deadline next = board_.next_deadline();
    if (!waiting_again_.empty()) next = Deadline::at(Clock::now());
    if (draining) next = next.earlier(Deadline::after(std::chrono::milliseconds(50)));
    for (const auto& [id, connection] : connections_) {
      if (connection.handshake) next = next.earlier(connection.proven_by);
    }
    if (!listens_again_.has_passed()) next = next.earlier(listens_again_);
    return next;
  }

  /// One sleep and what came of it; false when it is time to stop.
  bool step(bool draining) {
    std::vector<pollfd> waits = {
        {.fd = draining ? -1 : stop_, .events = POLLIN, .revents = 0},
        {.fd = draining || !listens_again_.has_passed() ? -1 : listener_.fd(),
         .events = POLLIN,
         .revents = 0},
        {.fd = bell_.get(), .events = POLLIN, .revents = 0}};
    const std::size_t others = waits.size();
    std::vector<StoreBoard::Client> ids;
    for (const auto& [id, connection] : connections_) {
      const bool writes = !connection.unsent.empty();
      waits.push_back({.fd = connection.socket.get(),
                       .events = static_cast<short>(writes ? POLLOUT : POLLIN),
                       .revents = 0});
      ids.push_back(id);
    }
    const int count = ::poll(waits.data(), waits.size(), next_deadline(draining).poll_timeout_ms());
    if (count < 0 && errno != EINTR) return false;
    if (waits[0].revents != 0) return false;
    if (waits[1].revents != 0) accept_all();
    // What a rank said before its end comes first.
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (waits[i + others].revents != 0) serve(ids[i]);
    }
    if (waits[2].revents != 0) take_news();
    for (const auto id : std::exchange(waiting_again_, {})) serve(id);
    answer(board_.expire());
    drop_silent();
    return true;
  }

  void take_news() {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto got = ::read(bell_.get(), &count, sizeof count);
    std::vector<News> news;
    {
      Lock lock(mutex_);
      news = std::exchange(news_, {});
    }
    for (const News& one : news) answer(take(one));
  }

  std::vector<StoreBoard::Answer> take(const News& news) {
    switch (news.kind) {
      case News::Kind::kEnded:
        return board_.rank_ended(news.process, news.why, news.well);
      case News::Kind::kJobEnds:
        return board_.end_job(news.why);
      case News::Kind::kKill:
        return board_.kill(news.process);
      case News::Kind::kAnswer:
        return board_.answer_end(news.process, news.successor);
      case News::Kind::kAdd:
        board_.add_process();
        break;
      case News::Kind::kAim:
        return board_.aim_at(news.size);
    }
    return {};
  }

  void accept_all() {
    for (;;) {
      auto peer = listener_.accept();
      if (!peer.is_ok()) return cannot_accept(peer.status());
      if (!peer.value().is_open()) return;
      if (connections_.size() > kMaxConnections) return;  // closes it
      raised_ = false;
      connections_.emplace(next_id_++,
                           Connection{.socket = std::move(peer).value(),
                                      .handshake = Handshake(Handshake::Side::kServer, key_),
                                      .proven_by = Deadline::after(kHandshakeTime)});
    }
  }

  /// Most often too few descriptors: the limit is raised, else all ranks learn why they do not
  /// meet.
  void cannot_accept(const Status& why) {
    const bool has_room = reserve_descriptors(kMoreDescriptors).is_ok() ||
                          reserve_descriptors(kSomeDescriptors).is_ok();
    if (has_room && !raised_) {
      raised_ = true;
      return;  // The connection still waits.
    }
    raised_ = false;
    listens_again_ = Deadline::after(std::chrono::milliseconds(100));
    const Status cause = error(
        Code::kSystem, "the store of the job on {} cannot take more than {} connections ({}); {}",
        local_host_name(), connections_.size(), why.message(), describe_descriptor_limit());
    if (!exhausted_) log(LogLevel::kError, "bootstrap", "{}", cause.message());
    exhausted_ = true;
    answer(board_.fail_joining(cause));
  }

  void refuse(StoreBoard::Client id, const Status& why) {
    // Who left by itself, a rank that tries again for one, is not a stranger.
    const bool left = why.code() == Code::kAborted || why.code() == Code::kPeerLost;
    if (!refused_one_ && !left) {
      log(LogLevel::kWarning, "bootstrap",
          "refused a connection to the store ({}); the job goes on", why.message());
    }
    refused_one_ |= !left;
    connections_.erase(id);
  }

  void drop(StoreBoard::Client id) {
    connections_.erase(id);
    listens_again_ = Deadline::after(std::chrono::seconds(0));  // It has left a descriptor.
    answer(board_.forget(id));
  }

  void drop_silent() {
    std::vector<StoreBoard::Client> silent;
    for (const auto& [id, connection] : connections_) {
      if (connection.handshake && connection.proven_by.has_passed()) silent.push_back(id);
    }
    for (const auto id : silent) {
      refuse(id, error(Code::kTimeout, "handshake: the peer is silent"));
    }
  }

  void serve(StoreBoard::Client id) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;
    Connection& connection = found->second;
    if (connection.handshake) {
      const auto proven = connection.handshake->advance(connection.socket.get());
      if (!proven.is_ok()) return refuse(id, proven.status());
      if (!proven.value()) return;
      connection.handshake.reset();
      has_served_.store(true);
      return;
    }
    if (!flush(connection)) return drop(id);
    // Who does not read its answers gets no more of them to be kept here.
    if (!connection.unsent.empty()) return;
    if (!receive(connection)) return drop(id);
    while (connection.unsent.empty()) {
      std::uint32_t length = 0;
      if (connection.received.size() < sizeof length) return;
      std::memcpy(&length, connection.received.data(), sizeof length);
      if (length > store_message::kMaxRequestBytes) return drop(id);
      if (connection.received.size() < sizeof length + length) return;
      auto request = store_message::decode_request(
          std::span(connection.received).subspan(sizeof length, length));
      if (!request.is_ok()) return drop(id);
      connection.received.erase(
          connection.received.begin(),
          connection.received.begin() + static_cast<std::ptrdiff_t>(sizeof length + length));
      if (request.value().verb == store_message::Verb::kAttend) {
        end_when_unanswered(connection.socket.get(), store_message::kSilenceOfClient);
      }
      answer(board_.handle(id, std::move(request).value()));
      if (connections_.count(id) == 0) return;
    }
  }

  void answer(const std::vector<StoreBoard::Answer>& answers) {
    // Whoever is told that something has happened may count on the owner to know it, too.
    for (ElasticEvent& event : board_.take_events()) on_event_(std::move(event));
    for (const auto& [client, reply] : answers) {
      const auto found = connections_.find(client);
      if (found == connections_.end()) continue;
      const Bytes message = encode(reply);
      ByteWriter prefix;
      prefix.put(static_cast<std::uint32_t>(message.size()));
      Bytes& unsent = found->second.unsent;
      unsent.insert(unsent.end(), prefix.bytes().begin(), prefix.bytes().end());
      unsent.insert(unsent.end(), message.begin(), message.end());
      if (!flush(found->second)) {
        drop(client);
      } else if (unsent.empty() && !found->second.received.empty()) {
        waiting_again_.push_back(client);  // for what it asked meanwhile
      }
    }
  }

  /// False when the connection is gone.
  static bool flush(Connection& connection) {
    std::size_t done = 0;
    while (done < connection.unsent.size()) {
      const auto sent = ::send(connection.socket.get(), connection.unsent.data() + done,
                               connection.unsent.size() - done, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK) return false;
      if (sent < 0) break;
      done += static_cast<std::size_t>(sent);
    }
    connection.unsent.erase(connection.unsent.begin(),
                            connection.unsent.begin() + static_cast<std::ptrdiff_t>(done));
    return true;
  }

  /// Takes what has arrived, 64 KiB at most per turn. False when the connection is gone.
  static bool receive(Connection& connection) {
    constexpr std::size_t kChunk = std::size_t{64} << 10;
    const std::size_t old_size = connection.received.size();
    connection.received.resize(old_size + kChunk);
    const auto got = ::recv(connection.socket.get(), connection.received.data() + old_size, kChunk,
                            MSG_DONTWAIT);
    const int cause = errno;
    connection.received.resize(old_size + static_cast<std::size_t>(got > 0 ? got : 0));
    if (got > 0) return true;
    return got < 0 && (cause == EAGAIN || cause == EWOULDBLOCK || cause == EINTR);
  }

  Listener listener_;
  int stop_;
  UniqueFd bell_;  ///< Rung for news.
  JobKey key_;
  std::map<StoreBoard::Client, Connection> connections_;
  StoreBoard::Client next_id_ = 1;
  StoreBoard board_;
  OnEvent on_event_;
  std::vector<StoreBoard::Client> waiting_again_;
  bool refused_one_ = false;
  bool raised_ = false;     ///< The limit of descriptors, since the last connection was taken.
  bool exhausted_ = false;  ///< It was said.
  Deadline listens_again_ = Deadline::after(std::chrono::seconds(0));
  std::atomic<bool> has_served_{false};
  Mutex mutex_;
  std::vector<News> news_ HVD_GUARDED_BY(mutex_);
};

}  // namespace

Result<std::unique_ptr<TcpStoreServer>> TcpStoreServer::start(const JobKey& key,
                                                              std::uint16_t port) {
  return start(key, port, std::nullopt);
}

Result<std::unique_ptr<TcpStoreServer>> TcpStoreServer::start(const JobKey& key,
                                                              const RosterPlan& plan,
                                                              OnEvent on_event) {
  return start(key, 0, Elastic{plan, std::move(on_event)});
}

Result<std::unique_ptr<TcpStoreServer>> TcpStoreServer::start(const JobKey& key, std::uint16_t port,
                                                              std::optional<Elastic> elastic) {
  HVD_TRY_ASSIGN(Listener listener, Listener::open(port));
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  UniqueFd bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop.is_open() || !bell.is_open()) return Status::system("cannot create an eventfd", errno);
  return std::unique_ptr<TcpStoreServer>(new TcpStoreServer(
      std::move(listener), std::move(stop), std::move(bell), key, std::move(elastic)));
}

TcpStoreServer::TcpStoreServer(Listener listener, UniqueFd stop, UniqueFd bell, const JobKey& key,
                               std::optional<Elastic> elastic)
    : port_(listener.port()), stop_(std::move(stop)) {
  std::optional<RosterPlan> plan;
  OnEvent on_event;
  if (elastic) {
    plan = elastic->plan;
    on_event = std::move(elastic->on_event);
  }
  // Shared by the thread and the questions of the owner.
  const auto loop = std::make_shared<Loop>(std::move(listener), stop_.get(), std::move(bell), key,
                                           plan, std::move(on_event));
  thread_ = std::thread([loop] { loop->run(); });
  has_served_ = [loop] { return loop->has_served(); };
  tell_ = [loop](News news) { loop->tell(std::move(news)); };
}

TcpStoreServer::~TcpStoreServer() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(stop_.get(), &one, sizeof one);
  thread_.join();
}

std::string TcpStoreServer::addresses(std::string_view first) const {
  std::string text;
  for (const std::string& address : published_addresses(interfaces_of_host(), first)) {
    const auto parsed = SocketAddress::of(address, port_);
    if (!parsed.is_ok()) continue;
    if (!text.empty()) text += ",";
    text += parsed.value().to_string();
  }
  return text;
}

std::string TcpStoreServer::loopback_address() const { return format_text("127.0.0.1:{}", port_); }

}  // namespace hvd
