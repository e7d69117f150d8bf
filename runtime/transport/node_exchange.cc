// SPDX-License-Identifier: Apache-2.0
#include "transport/node_exchange.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <utility>

#include "base/bytes.h"
#include "base/log.h"
#include "transport/fd_passing.h"
#include "transport/handshake.h"
#include "transport/life_locks.h"
#include "transport/shared_segment.h"
#include "transport/socket_io.h"

namespace hvd {
namespace {

constexpr std::size_t kMaxOutcomeBytes = 4096;

struct NodeIntroduction {
  std::int32_t rank = 0;
  std::int32_t has_pidfd = 0;
};

/// What a rank brings: its bell, and its pidfd where the kernel has such.
struct Member {
  UniqueFd socket;
  UniqueFd bell;
  UniqueFd pid_fd;
};

Result<Member> my_part() {
  Member me;
  me.bell.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!me.bell.is_open()) return Status::system("cannot create an eventfd", errno);
#ifdef SYS_pidfd_open
  me.pid_fd.reset(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
#endif
  return me;
}

std::pair<sockaddr_un, socklen_t> abstract_address(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), length);
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length)};
}

Status check_user(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) {
    return Status::system("SO_PEERCRED", errno);
  }
  if (peer.uid == ::geteuid()) return Status::ok();
  return error(Code::kInvalidArgument, "process {} belongs to user {}, not {}", peer.pid, peer.uid,
               ::geteuid());
}

int local_rank_of(const NodeExchangeOptions& options) {
  const auto found = std::find(options.ranks.begin(), options.ranks.end(), options.rank);
  return static_cast<int>(found - options.ranks.begin());
}

NodeGroup make_group(const NodeExchangeOptions& options, std::shared_ptr<SharedSegment> segment,
                     std::vector<UniqueFd> bells, std::vector<UniqueFd> pid_fds,
                     LifeLocks life_locks) {
  NodeGroup group;
  group.local_rank = local_rank_of(options);
  group.local_size = static_cast<int>(options.ranks.size());
  group.memory = segment->memory();
  group.arena = std::make_shared<SharedArena>(segment, group.local_rank, group.local_size);
  group.doorbell = std::make_unique<Doorbell>(segment->words(), std::move(bells), group.local_rank);
  pid_fds[static_cast<std::size_t>(group.local_rank)].reset();
  group.pid_fds = std::move(pid_fds);
  group.life_locks = std::move(life_locks);
  segment->close_fd();
  group.owner = std::move(segment);
  return group;
}

/// Takes the introduction and descriptors of one that has proven the key; its index in the group,
/// or why not. The file of locks goes out first: who has been admitted has locked its byte.
Result<std::size_t> admit(const NodeExchangeOptions& options, UniqueFd socket,
                          const LifeLocks& life_locks, std::map<std::size_t, Member>& members) {
  const Deadline deadline = options.deadline.earlier(Deadline::after(std::chrono::seconds(5)));
  const int locks_file = life_locks.fd();
  HVD_TRY(send_fds(socket.get(), std::span(&locks_file, 1), deadline));
  NodeIntroduction hello;
  HVD_TRY(receive_all(socket.get(), std::as_writable_bytes(std::span(&hello, 1)), deadline,
                      "the introduction of a local rank"));
  const auto found = std::find(options.ranks.begin() + 1, options.ranks.end(), hello.rank);
  if (found == options.ranks.end()) {
    return error(Code::kInvalidArgument, "rank {} is not of this node", hello.rank);
  }
  HVD_TRY_ASSIGN(auto fds, receive_fds(socket.get(), hello.has_pidfd != 0 ? 2 : 1, deadline));
  Member member;
  member.socket = std::move(socket);
  member.bell = std::move(fds[0]);
  if (fds.size() > 1) member.pid_fd = std::move(fds[1]);
  const auto index = static_cast<std::size_t>(found - options.ranks.begin());
  members.insert_or_assign(index, std::move(member));
  return index;
}

std::vector<int> missing_ranks(const NodeExchangeOptions& options,
                               const std::map<std::size_t, Member>& members) {
  std::vector<int> missing;
  for (std::size_t i = 1; i < options.ranks.size(); ++i) {
    if (members.count(i) == 0) missing.push_back(options.ranks[i]);
  }
  return missing;
}

/// A Unix socket that is shut down still listens by its accept(), which finds nobody.
bool is_shut_down(int listener) {
  pollfd wait{.fd = listener, .events = 0, .revents = 0};
  return ::poll(&wait, 1, 0) > 0 && (wait.revents & POLLHUP) != 0;
}

/// Connections to the leader, which prove the key side by side: one that says nothing holds up none
/// of the others.
class Entrance {
 public:
  Entrance(const NodeExchangeOptions& options, const LifeLocks& life_locks,
           std::map<std::size_t, Member>& members)
      : options_(options), life_locks_(life_locks), members_(members) {}

  Status collect() {
    while (members_.size() < options_.ranks.size()) {
      HVD_TRY(wait());
      std::vector<Candidate> waiting;
      for (Candidate& candidate : std::exchange(candidates_, {})) {
        const auto proven = candidate.handshake.advance(candidate.socket.get());
        if (proven.is_ok() && proven.value()) {
          refuse_unless(admit(options_, std::move(candidate.socket), life_locks_, members_));
        } else if (!proven.is_ok()) {
          refuse_unless(proven);
        } else if (candidate.limit.has_passed()) {
          refuse_unless(Result<bool>(error(Code::kTimeout, "handshake: the peer is silent")));
        } else {
          waiting.push_back(std::move(candidate));
        }
      }
      candidates_ = std::move(waiting);
    }
    return Status::ok();
  }

 private:
  struct Candidate {
    UniqueFd socket;
    Handshake handshake;
    Deadline limit;
  };
  static constexpr std::chrono::seconds kProofTime{5};
  static constexpr std::size_t kMostStrangers = 256;

  /// Until something can be done; takes a connection that waits.
  Status wait() {
    const bool has_room = candidates_.size() < options_.ranks.size() + kMostStrangers;
    std::vector<pollfd> waits{
        {.fd = has_room ? options_.listener->fd() : -1, .events = POLLIN, .revents = 0}};
    Deadline limit = options_.deadline;
    for (const Candidate& candidate : candidates_) {
      waits.push_back({.fd = candidate.socket.get(),
                       .events = candidate.handshake.wanted_events(),
                       .revents = 0});
      limit = limit.earlier(candidate.limit);
    }
    const int count = ::poll(waits.data(), waits.size(), limit.poll_timeout_ms());
    if (count < 0 && errno != EINTR) return Status::system("poll", errno);
    if (waits[0].revents != 0) return accept();
    if (!options_.deadline.has_passed()) return Status::ok();
    const auto missing = missing_ranks(options_, members_);
    return error(Code::kTimeout, "rank {} of this node (and {} more) did not come to share memory",
                 missing.front(), missing.size() - 1);
  }

  Status accept() {
    UniqueFd socket(
        ::accept4(options_.listener->fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.is_open() && (errno == EMFILE || errno == ENFILE)) {
      return Status::system("cannot take the connection of a local rank", errno);
    }
    if (!socket.is_open() && (errno == EINVAL || is_shut_down(options_.listener->fd()))) {
      return error(Code::kAborted, "the exchange within the node was given up");
    }
    if (!socket.is_open()) return Status::ok();
    const Status user = check_user(socket.get());
    if (!user.is_ok()) {
      refuse_unless(Result<bool>(user));
      return Status::ok();
    }
    candidates_.push_back({.socket = std::move(socket),
                           .handshake = Handshake(Handshake::Side::kServer, options_.key),
                           .limit = options_.deadline.earlier(Deadline::after(kProofTime))});
    return Status::ok();
  }

  template <typename Value>
  void refuse_unless(const Result<Value>& outcome) {
    if (outcome.is_ok() || refused_one_) return;
    refused_one_ = true;
    log(LogLevel::kWarning, "bootstrap", "refused a local connection ({}); the job goes on",
        outcome.status().message());
  }

  const NodeExchangeOptions& options_;
  const LifeLocks& life_locks_;
  std::map<std::size_t, Member>& members_;
  std::vector<Candidate> candidates_;  ///< That have not proven the key yet.
  bool refused_one_ = false;
};

/// What a member tells the leader once it has tried to map the memory: nothing, or why it cannot.
Bytes encode_outcome(const Status& outcome) {
  ByteWriter writer;
  writer.put(static_cast<std::uint8_t>(outcome.code()));
  writer.put_string(outcome.message());
  return writer.take();
}

Status await_outcome(int socket, int rank, Deadline deadline) {
  const std::string who = format_text("rank {} of the same node", rank);
  HVD_TRY_ASSIGN(const Bytes bytes,
                 receive_frame(socket, kMaxOutcomeBytes, deadline, "the answer of " + who));
  ByteReader reader(bytes);
  HVD_TRY_ASSIGN(const auto code, reader.get<std::uint8_t>());
  HVD_TRY_ASSIGN(std::string why, reader.get_string());
  if (code > static_cast<std::uint8_t>(Code::kInternal)) {
    return error(Code::kInternal, "unknown code {} from {}", code, who);
  }
  const Status outcome(static_cast<Code>(code), std::move(why));
  return outcome.is_ok() ? outcome : outcome.with_context(who);
}

/// Sends everything to one member and waits until it has it: descriptors in flight are limited.
Status hand_out(int socket, int rank, int segment, const std::map<std::size_t, Member>& members,
                Deadline deadline) {
  std::vector<std::uint8_t> has_pidfd;
  std::vector<int> fds = {segment};
  for (const auto& [index, member] : members) {
    fds.push_back(member.bell.get());
    has_pidfd.push_back(member.pid_fd.is_open() ? 1 : 0);
  }
  for (const auto& [index, member] : members) {
    if (member.pid_fd.is_open()) fds.push_back(member.pid_fd.get());
  }
  HVD_TRY(send_frame(socket, encode_outcome(Status::ok()), deadline, "a local rank"));
  HVD_TRY(send_all(socket, std::as_bytes(std::span(has_pidfd)), deadline, "a local rank"));
  HVD_TRY(send_fds(socket, fds, deadline));
  return await_outcome(socket, rank, deadline);
}

SegmentLayout layout_of(const NodeExchangeOptions& options) {
  return {.local_size = static_cast<int>(options.ranks.size()),
          .memory_bytes = options.memory_bytes,
          .arena_bytes = options.arena_bytes};
}

Result<NodeGroup> lead(const NodeExchangeOptions& options) {
  HVD_TRY_ASSIGN(auto segment, SharedSegment::create(layout_of(options)));
  std::map<std::size_t, Member> members;
  HVD_TRY_ASSIGN(Member me, my_part());
  members.emplace(0, std::move(me));
  HVD_TRY_ASSIGN(LifeLocks life_locks, LifeLocks::create());
  HVD_TRY(life_locks.lock(0));
  HVD_TRY(Entrance(options, life_locks, members).collect());
  std::vector<UniqueFd> bells;
  std::vector<UniqueFd> pid_fds;
  Status outcome;
  for (auto& [index, member] : members) {
    const int socket = member.socket.get();
    if (index == 0) continue;
    if (outcome.is_ok()) {
      outcome = hand_out(socket, options.ranks[index], segment->fd(), members, options.deadline);
    } else {
      // Else it would take the end of this connection for the cause.
      static_cast<void>(
          send_frame(socket, encode_outcome(outcome), options.deadline, "a local rank"));
    }
  }
  HVD_TRY(outcome);
  for (auto& [index, member] : members) {
    bells.push_back(std::move(member.bell));
    pid_fds.push_back(std::move(member.pid_fd));
  }
  return make_group(options, std::move(segment), std::move(bells), std::move(pid_fds),
                    std::move(life_locks));
}

Result<NodeGroup> follow(const NodeExchangeOptions& options) {
  const Deadline deadline = options.deadline;
  HVD_TRY_ASSIGN(UniqueFd socket, AbstractListener::connect(options.leader_name, deadline));
  HVD_TRY(check_user(socket.get()));
  HVD_TRY(shake_hands(socket.get(), Handshake::Side::kClient, options.key, deadline));
  HVD_TRY_ASSIGN(auto locks_file, receive_fds(socket.get(), 1, deadline));
  LifeLocks life_locks(std::move(locks_file.front()));
  HVD_TRY(life_locks.lock(local_rank_of(options)));
  HVD_TRY_ASSIGN(Member me, my_part());
  const NodeIntroduction hello{.rank = options.rank, .has_pidfd = me.pid_fd.is_open() ? 1 : 0};
  HVD_TRY(send_all(socket.get(), std::as_bytes(std::span(&hello, 1)), deadline, "the leader"));
  std::vector<int> mine = {me.bell.get()};
  if (me.pid_fd.is_open()) mine.push_back(me.pid_fd.get());
  HVD_TRY(send_fds(socket.get(), mine, deadline));
  const std::size_t local_size = options.ranks.size();
  HVD_TRY(await_outcome(socket.get(), options.ranks.front(), deadline));
  std::vector<std::uint8_t> has_pidfd(local_size);
  HVD_TRY(receive_all(socket.get(), std::as_writable_bytes(std::span(has_pidfd)), deadline,
                      "the memory of the node"));
  const auto pid_fd_count = static_cast<std::size_t>(
      std::count_if(has_pidfd.begin(), has_pidfd.end(), [](auto flag) { return flag != 0; }));
  HVD_TRY_ASSIGN(auto fds, receive_fds(socket.get(), 1 + local_size + pid_fd_count, deadline));
  auto opened = SharedSegment::open(std::move(fds[0]), layout_of(options));
  const Status told =
      send_frame(socket.get(), encode_outcome(opened.status()), deadline, "the leader of the node");
  HVD_TRY_ASSIGN(auto segment, std::move(opened));
  HVD_TRY(told);
  std::vector<UniqueFd> bells;
  std::vector<UniqueFd> pid_fds(local_size);
  std::size_t next = 1;
  for (std::size_t i = 0; i < local_size; ++i) bells.push_back(std::move(fds[next++]));
  for (std::size_t i = 0; i < local_size; ++i) {
    if (has_pidfd[i] != 0) pid_fds[i] = std::move(fds[next++]);
  }
  return make_group(options, std::move(segment), std::move(bells), std::move(pid_fds),
                    std::move(life_locks));
}

}  // namespace

Result<AbstractListener> AbstractListener::open() {
  std::string name = "hvd-" + random_hex(16);
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) return Status::system("cannot create a Unix socket", errno);
  const auto [address, length] = abstract_address(name);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    return Status::system("cannot listen on a Unix socket", errno);
  }
  return AbstractListener(std::move(socket), std::move(name));
}

void AbstractListener::interrupt() const { ::shutdown(socket_.get(), SHUT_RDWR); }

Result<UniqueFd> AbstractListener::connect(const std::string& name, Deadline deadline) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return Status::system("cannot create a Unix socket", errno);
  const auto [address, length] = abstract_address(name);
  // Blocking: the leader listens already, at most its backlog is full.
  for (;;) {
    const long left_ms = std::max(1, deadline.is_forever() ? 0 : deadline.poll_timeout_ms());
    const timeval limit{.tv_sec = left_ms / 1000, .tv_usec = left_ms % 1000 * 1000};
    if (!deadline.is_forever()) {
      ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    }
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0) break;
    if (errno == EAGAIN && deadline.has_passed()) {
      return error(Code::kTimeout, "the leader of the node takes no connections");
    }
    if (errno != EINTR && errno != EAGAIN) {
      return Status::system("cannot reach the leader of the node", errno);
    }
  }
  ::fcntl(socket.get(), F_SETFL, O_NONBLOCK);
  return socket;
}

Result<NodeGroup> exchange_node(const NodeExchangeOptions& options) {
  return options.rank == options.ranks.front() ? lead(options) : follow(options);
}

std::string machine_key() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot_id;
  std::getline(file, boot_id);
  struct stat name_space {};
  if (::stat("/proc/self/ns/net", &name_space) != 0) name_space.st_ino = 0;
  return format_text("{}/{}/{}", boot_id, name_space.st_ino, ::geteuid());
}

}  // namespace hvd
