// SPDX-License-Identifier: Apache-2.0
#include "transport/mesh.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <list>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "base/log.h"
#include "transport/handshake.h"
#include "transport/socket_io.h"

namespace hvd {
namespace {

using Links = std::map<LinkId, std::unique_ptr<Link>>;

/// The first words on a proven connection.
struct Introduction {
  std::int32_t rank = 0;
  LinkPurpose purpose = LinkPurpose::kTree;
  std::int32_t socket = 0;
};

/// A connection that has not said who it is.
struct Newcomer {
  UniqueFd socket;
  std::optional<Handshake> handshake;
  Deadline deadline;
};

/// Accepts the links that higher ranks open, on a thread of its own: while this rank connects
/// downwards others may already wait for its answer.
class Acceptor {
 public:
  Acceptor(const Listener& listener, const JobKey& key, std::map<LinkId, std::string> expected,
           int stop, Deadline deadline)
      : listener_(listener),
        key_(key),
        expected_(std::move(expected)),
        stop_(stop),
        deadline_(deadline) {}

  void run() { status_ = accept_all(); }
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
    for (const auto& [id, host] : expected_) {
      if (links_.count(id) != 0) continue;
      if (++count <= 4)
        who += format_text("{}rank {} on {}", count > 1 ? ", " : "", id.peer_rank, host);
    }
    if (count > 4) who += format_text(" and {} more", count - 4);
    return error(Code::kTimeout,
                 "{} did not connect; a firewall between the nodes may block TCP port {}", who,
                 listener_.port());
  }

  Result<bool> step() {
    std::vector<pollfd> waits = {{.fd = stop_, .events = POLLIN, .revents = 0},
                                 {.fd = listener_.fd(), .events = POLLIN, .revents = 0}};
    Deadline next = deadline_;
    for (const Newcomer& newcomer : newcomers_) {
      waits.push_back({.fd = newcomer.socket.get(), .events = POLLIN, .revents = 0});
      next = next.earlier(newcomer.deadline);
    }
    if (::poll(waits.data(), waits.size(), next.poll_timeout_ms()) < 0 && errno != EINTR) {
      return Status::system("poll", errno);
    }
    if (waits[0].revents != 0) return false;
    std::size_t index = 2;
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
    if (found == expected_.end() || links_.count(id) != 0) {
      return error(Code::kInvalidArgument, "rank {} has no business here", hello.rank);
    }
    links_.emplace(id,
                   std::make_unique<Link>(std::move(newcomer.socket), id.peer_rank, found->second));
    return Status::ok();
  }

  void refuse(const Status& why) {
    if (why.code() == Code::kAborted) return;
    if (!refused_one_) {
      log(LogLevel::kWarning, "bootstrap", "refused a connection to the mesh ({}); the job goes on",
          why.message());
    }
    refused_one_ = true;
  }

  const Listener& listener_;
  JobKey key_;
  std::map<LinkId, std::string> expected_;
  int stop_;
  Deadline deadline_;
  std::list<Newcomer> newcomers_;
  Links links_;
  Status status_;
  bool refused_one_ = false;
};

Result<std::unique_ptr<Link>> connect_to(int rank, const JobKey& key, const MeshPeer& peer,
                                         Deadline deadline) {
  const std::string who = format_text("rank {} on {}", peer.id.peer_rank, peer.host);
  auto socket = connect_authenticated(peer.addresses, key, deadline);
  if (!socket.is_ok()) {
    return error(
        socket.status().code(),
        "{}: {}; see that no firewall stands between the hosts, or name the interface that "
        "joins them in HVD_INTERFACE",
        who, socket.status().message());
  }
  const Introduction hello{.rank = rank, .purpose = peer.id.purpose, .socket = peer.id.socket};
  HVD_TRY(send_all(socket.value().get(), std::as_bytes(std::span(&hello, 1)), deadline, who));
  return std::make_unique<Link>(std::move(socket).value(), peer.id.peer_rank, peer.host);
}

}  // namespace

Result<Links> build_mesh(int rank, const Listener& listener, const JobKey& key,
                         const std::vector<MeshPeer>& peers, Deadline deadline) {
  if (peers.empty()) return Links();
  std::map<LinkId, std::string> expected;
  for (const MeshPeer& peer : peers) {
    if (peer.id.peer_rank > rank) expected.emplace(peer.id, peer.host);
  }
  const UniqueFd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop.is_open()) return Status::system("cannot create an eventfd", errno);
  Acceptor acceptor(listener, key, std::move(expected), stop.get(), deadline);
  std::thread thread([&acceptor] { acceptor.run(); });
  Links links;
  Status failure;
  for (const MeshPeer& peer : peers) {
    if (peer.id.peer_rank > rank) continue;
    auto link = connect_to(rank, key, peer, deadline);
    if (!link.is_ok()) {
      failure = link.status();
      const std::uint64_t one = 1;
      [[maybe_unused]] const auto written = ::write(stop.get(), &one, sizeof one);
      break;
    }
    links.emplace(peer.id, std::move(link).value());
  }
  thread.join();
  HVD_TRY(failure);
  HVD_TRY(acceptor.status());
  links.merge(acceptor.take());
  return links;
}

}  // namespace hvd
