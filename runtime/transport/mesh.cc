// SPDX-License-Identifier: Apache-2.0
#include "transport/mesh.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <list>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "base/log.h"
#include "transport/handshake.h"
#include "transport/interfaces.h"
#include "transport/socket_io.h"

namespace hvd {
namespace {

using Links = std::map<LinkId, std::unique_ptr<Link>>;

/// A peer that is silent for so long is tried again: a packet or a busy host may be the cause.
constexpr auto kTryTime = std::chrono::seconds(5);
constexpr auto kLongestPause = std::chrono::milliseconds(100);

/// The first words on a proven connection. The acceptor answers them by one byte, after which both
/// ends count on the link.
struct Introduction {
  std::int32_t rank = 0;
  LinkPurpose purpose = LinkPurpose::kTree;
  std::int32_t socket = 0;
};
constexpr std::byte kWelcome{1};

/// A connection that has not said who it is.
struct Newcomer {
  UniqueFd socket;
  std::optional<Handshake> handshake;
  Deadline deadline;
};

/// Accepts the links that higher ranks open, on a thread of its own: while this rank connects
/// downwards others may already wait for its answer. Ends early when the listener is interrupted,
/// and interrupts it when it fails.
class Acceptor {
 public:
  Acceptor(const Listener& listener, const JobKey& key, std::map<LinkId, const MeshPeer*> expected,
           Deadline deadline)
      : listener_(listener), key_(key), expected_(std::move(expected)), deadline_(deadline) {}

  void run() {
    status_ = accept_all();
    if (!status_.is_ok()) listener_.interrupt();
  }
  const Status& status() const { return status_; }
  Links take() { return std::move(links_); }

 private:
  Status accept_all() {
    while (links_.size() < expected_.size()) {
      HVD_TRY_ASSIGN(const bool more, step());
      if (!more) return error(Code::kAborted, "the mesh was given up");
      if (deadline_.has_passed() && links_.size() < expected_.size()) return missing();
    }
    return Status::ok();
  }

  Status missing() const {
    std::string who;
    int count = 0;
    for (const auto& [id, peer] : expected_) {
      if (links_.count(id) != 0 || ++count > 4) continue;
      who += format_text("{}rank {} on {}", count > 1 ? ", " : "", id.peer_rank, peer->host);
      if (!peer->addresses.empty()) {
        who += format_text(" ({})", describe_route(peer->addresses.front()));
      }
    }
    if (count > 4) who += format_text(" and {} more", count - 4);
    return error(Code::kTimeout,
                 "{} did not connect; a firewall between the nodes may block TCP port {}", who,
                 listener_.port());
  }

  Result<bool> step() {
    std::vector<pollfd> waits = {{.fd = listener_.fd(), .events = POLLIN, .revents = 0}};
    Deadline next = deadline_;
    for (const Newcomer& newcomer : newcomers_) {
      waits.push_back({.fd = newcomer.socket.get(), .events = POLLIN, .revents = 0});
      next = next.earlier(newcomer.deadline);
    }
    if (::poll(waits.data(), waits.size(), next.poll_timeout_ms()) < 0 && errno != EINTR) {
      return Status::system("poll", errno);
    }
    if ((waits[0].revents & POLLHUP) != 0) return false;
    std::size_t index = 1;
    for (auto newcomer = newcomers_.begin(); newcomer != newcomers_.end(); ++index) {
      const Status status = waits[index].revents != 0 ? hear(*newcomer) : Status::ok();
      if (!status.is_ok()) {
        refuse(status);
      } else if (newcomer->deadline.has_passed()) {
        refuse(error(Code::kTimeout, "handshake: the peer is silent"));
      } else if (newcomer->socket.is_open()) {
        ++newcomer;
        continue;
      }
      newcomer = newcomers_.erase(newcomer);
    }
    return welcome();
  }

  Result<bool> welcome() {
    for (;;) {
      HVD_TRY_ASSIGN(UniqueFd socket, listener_.accept());
      if (!socket.is_open()) return true;
      newcomers_.push_back({.socket = std::move(socket),
                            .handshake = Handshake(Handshake::Side::kServer, key_),
                            .deadline = Deadline::after(std::chrono::seconds(5))});
    }
  }

  Status hear(Newcomer& newcomer) {
    if (newcomer.handshake) {
      HVD_TRY_ASSIGN(const bool proven, newcomer.handshake->advance(newcomer.socket.get()));
      if (proven) newcomer.handshake.reset();
      return Status::ok();
    }
    Introduction hello;
    HVD_TRY(receive_all(newcomer.socket.get(), std::as_writable_bytes(std::span(&hello, 1)),
                        newcomer.deadline, "the introduction of a rank"));
    const LinkId id{.purpose = hello.purpose, .peer_rank = hello.rank, .socket = hello.socket};
    const auto found = expected_.find(id);
    if (found == expected_.end()) {
      return error(Code::kInvalidArgument, "rank {} has no business here", hello.rank);
    }
    HVD_TRY(send_all(newcomer.socket.get(), std::span(&kWelcome, 1), newcomer.deadline,
                     "the welcome of a rank"));
    // Where there is one already, its peer gave it up before the welcome came.
    links_.insert_or_assign(
        id, std::make_unique<Link>(std::move(newcomer.socket), id.peer_rank, found->second->host));
    return Status::ok();
  }

  void refuse(const Status& why) {
    // Who left by itself, a rank that tries again for one, is not a stranger.
    if (why.code() == Code::kAborted || why.code() == Code::kPeerLost) return;
    if (!refused_one_) {
      log(LogLevel::kWarning, "bootstrap", "refused a connection to the mesh ({}); the job goes on",
          why.message());
    }
    refused_one_ = true;
  }

  const Listener& listener_;
  JobKey key_;
  std::map<LinkId, const MeshPeer*> expected_;
  Deadline deadline_;
  std::list<Newcomer> newcomers_;
  Links links_;
  Status status_;
  bool refused_one_ = false;
};

/// Who cannot connect knows why: it speaks before those who only wait for it, and they before all
/// that wait for the end of the start. By a sixteenth of the time that is left, a second at most.
Deadline ahead_of(Deadline deadline, int steps) {
  if (deadline.is_forever()) return deadline;
  const Clock::duration left = std::max(deadline.time() - Clock::now(), Clock::duration::zero());
  return Deadline::at(deadline.time() -
                      steps * std::min<Clock::duration>(left / 16, std::chrono::seconds(1)));
}

/// Makes the links to lower ranks.
class Connector {
 public:
  Connector(int rank, const Listener& listener, const JobKey& key, Deadline deadline)
      : rank_(rank), listener_(listener), key_(key), deadline_(deadline) {}

  /// kAborted when the listener was interrupted.
  Result<std::unique_ptr<Link>> connect_to(const MeshPeer& peer) const {
    const std::string who = format_text("rank {} on {}", peer.id.peer_rank, peer.host);
    const auto began = Clock::now();
    auto pause = std::chrono::milliseconds(1);
    Status last;
    for (bool warned = false;; pause = std::min(2 * pause, kLongestPause)) {
      const Deadline whole = Deadline::after(kTryTime);
      auto socket = try_once(peer, who, deadline_.earlier(whole));
      if (socket.is_ok()) {
        return std::make_unique<Link>(std::move(socket).value(), peer.id.peer_rank, peer.host);
      }
      const Status& why = socket.status();
      if (why.code() == Code::kAborted) return why;
      // A try that the deadline cut short knows less than the one before.
      const bool cut = why.code() == Code::kTimeout && !whole.has_passed();
      if (!cut || last.is_ok()) last = why;
      const std::chrono::duration<double> tried = Clock::now() - began;
      // Another key stays another, and a process without descriptors gets none by waiting.
      const bool is_final = why.code() == Code::kMismatch || why.code() == Code::kSystem;
      if (is_final || deadline_.has_passed()) {
        return error(
            is_final ? why.code() : Code::kTimeout,
            "{}: {}; tried for {:.1f} s; see that no firewall stands between the hosts, or "
            "name the interface that joins them in HVD_INTERFACE",
            who, last.message(), tried.count());
      }
      if (!warned && tried >= kTryTime) {
        warned = true;
        log(LogLevel::kWarning, "bootstrap", "{}: {}; trying again", who, why.message());
      }
      HVD_TRY(wait(-1, deadline_.earlier(Deadline::after(pause))).status());
    }
  }

 private:
  Result<UniqueFd> try_once(const MeshPeer& peer, const std::string& who, Deadline limit) const {
    HVD_TRY_ASSIGN(UniqueFd socket, connect_authenticated(peer.addresses, key_, limit, &listener_));
    const Introduction hello{.rank = rank_, .purpose = peer.id.purpose, .socket = peer.id.socket};
    HVD_TRY(send_all(socket.get(), std::as_bytes(std::span(&hello, 1)), limit, who));
    // The acceptor welcomes or closes: who left before that would leave it with a dead link.
    HVD_TRY_ASSIGN(const bool answered, wait(socket.get(), deadline_));
    if (!answered) return error(Code::kTimeout, "it took the connection and said nothing more");
    std::byte welcome{};
    HVD_TRY(receive_all(socket.get(), std::span(&welcome, 1), limit, who));
    return socket;
  }

  /// Until `fd`, if any, can be read (true), the deadline, or the listener's end.
  Result<bool> wait(int fd, Deadline deadline) const {
    std::array<pollfd, 2> waits{{{.fd = listener_.fd(), .events = 0, .revents = 0},
                                 {.fd = fd, .events = POLLIN, .revents = 0}}};
    for (;;) {
      const int count = ::poll(waits.data(), waits.size(), deadline.poll_timeout_ms());
      if (count < 0 && errno != EINTR) return Status::system("poll", errno);
      if (count < 0) continue;
      if (waits[0].revents != 0) return error(Code::kAborted, "the mesh was given up");
      return waits[1].revents != 0;
    }
  }

  int rank_;
  const Listener& listener_;
  const JobKey& key_;
  Deadline deadline_;
};

}  // namespace

Result<Links> build_mesh(int rank, const Listener& listener, const JobKey& key,
                         const std::vector<MeshPeer>& peers, Deadline deadline) {
  if (peers.empty()) return Links();
  std::map<LinkId, const MeshPeer*> expected;
  for (const MeshPeer& peer : peers) {
    if (peer.id.peer_rank > rank) expected.emplace(peer.id, &peer);
  }
  Acceptor acceptor(listener, key, std::move(expected), ahead_of(deadline, 1));
  std::thread thread([&acceptor] { acceptor.run(); });
  const Connector connector(rank, listener, key, ahead_of(deadline, 2));
  Links links;
  Status failure;
  for (const MeshPeer& peer : peers) {
    if (peer.id.peer_rank > rank) continue;
    auto link = connector.connect_to(peer);
    if (!link.is_ok()) {
      failure = link.status();
      listener.interrupt();
      break;
    }
    links.emplace(peer.id, std::move(link).value());
  }
  thread.join();
  // The side that failed first made the other give up.
  if (failure.code() == Code::kAborted) HVD_TRY(acceptor.status());
  HVD_TRY(failure);
  HVD_TRY(acceptor.status());
  links.merge(acceptor.take());
  return links;
}

}  // namespace hvd
