// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/thread_world.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include "base/mutex.h"
#include "bootstrap/local_host.h"
#include "bootstrap/wiring_shape.h"
#include "transport/shared_segment.h"

namespace hvd {
namespace {

Result<WiringShape> shape_of(const ThreadWorldOptions& options) {
  std::vector<int> sizes = options.node_sizes;
  if (sizes.empty()) sizes.push_back(options.size);
  std::vector<std::vector<int>> node_ranks;
  int next = 0;
  for (const int local_size : sizes) {
    if (local_size < 1) {
      return error(Code::kInvalidArgument, "a node of {} ranks; each needs one or more",
                   local_size);
    }
    std::vector<int>& ranks = node_ranks.emplace_back(static_cast<std::size_t>(local_size));
    std::iota(ranks.begin(), ranks.end(), next);
    next += local_size;
  }
  if (next != options.size) {
    return error(Code::kInvalidArgument, "the nodes have {} ranks together, the world has {}", next,
                 options.size);
  }
  return WiringShape(std::move(node_ranks));
}

std::vector<PeerInfo> peers_of(const WiringShape& shape) {
  const std::string host = local_host_name();
  const int cpus = usable_cpus();
  std::vector<PeerInfo> peers;
  for (int node = 0; node < shape.nodes(); ++node) {
    for (int local = 0; local < shape.local_size(node); ++local) {
      peers.push_back({.rank = shape.rank_at(node, local),
                       .host = shape.nodes() > 1 ? format_text("{}/node{}", host, node) : host,
                       .node = node,
                       .local_rank = local,
                       .pid = ::getpid(),
                       .usable_cpus = cpus,
                       .mpi = {}});
    }
  }
  return peers;
}

Result<std::vector<UniqueFd>> duplicate(const std::vector<UniqueFd>& originals) {
  std::vector<UniqueFd> copies;
  for (const UniqueFd& original : originals) {
    copies.emplace_back(::fcntl(original.get(), F_DUPFD_CLOEXEC, 0));
    if (!copies.back().is_open()) return Status::system("cannot duplicate an eventfd", errno);
  }
  return copies;
}

Status join_node(const std::vector<int>& ranks, const ThreadWorldOptions& options,
                 std::vector<Wiring>& wirings) {
  const auto local_size = static_cast<int>(ranks.size());
  HVD_TRY_ASSIGN(auto segment,
                 SharedSegment::create_private({.local_size = local_size,
                                                .memory_bytes = options.memory_bytes(local_size),
                                                .arena_bytes = options.arena_bytes}));
  std::vector<UniqueFd> bells;
  for (int i = 0; i < local_size; ++i) {
    bells.emplace_back(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!bells.back().is_open()) return Status::system("cannot create an eventfd", errno);
  }
  for (int local = 0; local < local_size; ++local) {
    HVD_TRY_ASSIGN(auto copies, duplicate(bells));
    NodeGroup& node =
        wirings[static_cast<std::size_t>(ranks[static_cast<std::size_t>(local)])].node;
    node.local_rank = local;
    node.local_size = local_size;
    node.memory = segment->memory();
    node.arena = std::make_shared<SharedArena>(segment, local, local_size);
    node.doorbell = std::make_unique<Doorbell>(segment->words(), std::move(copies), local);
    node.pid_fds.resize(static_cast<std::size_t>(local_size));
    node.owner = segment;
  }
  return Status::ok();
}

/// The two ends of one connection.
struct LinkPair {
  std::unique_ptr<Link> first;
  std::unique_ptr<Link> second;
};

Result<LinkPair> connect(const PeerInfo& first, const PeerInfo& second) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) {
    return Status::system("cannot create a socket pair", errno);
  }
  LinkPair pair;
  pair.first = std::make_unique<Link>(UniqueFd(ends[0]), second.rank, second.host);
  pair.second = std::make_unique<Link>(UniqueFd(ends[1]), first.rank, first.host);
  return pair;
}

Status join_tree(const WiringShape& shape, std::vector<Wiring>& wirings) {
  for (int node = 0; node < shape.nodes(); ++node) {
    Wiring& leader = wirings[static_cast<std::size_t>(shape.rank_at(node, 0))];
    for (const int child_node : shape.children_of(node)) {
      Wiring& child = wirings[static_cast<std::size_t>(shape.rank_at(child_node, 0))];
      HVD_TRY_ASSIGN(auto pair, connect(leader.peers[static_cast<std::size_t>(leader.rank)],
                                        leader.peers[static_cast<std::size_t>(child.rank)]));
      leader.children.push_back(std::move(pair.first));
      child.parent = std::move(pair.second);
    }
  }
  return Status::ok();
}

/// Where the links to `node` begin in Wiring::lane.
std::size_t first_link(int node, int sockets) {
  return static_cast<std::size_t>(node) * static_cast<std::size_t>(sockets);
}

Status join_lanes(const WiringShape& shape, int sockets, std::vector<Wiring>& wirings) {
  for (int lane = 0; lane < shape.lanes(); ++lane) {
    for (int a = 0; a < shape.nodes(); ++a) {
      for (int b = a + 1; b < shape.nodes(); ++b) {
        Wiring& first = wirings[static_cast<std::size_t>(shape.rank_at(a, lane))];
        Wiring& second = wirings[static_cast<std::size_t>(shape.rank_at(b, lane))];
        const std::size_t to_second = first_link(b, sockets);
        const std::size_t to_first = first_link(a, sockets);
        for (std::size_t socket = 0; socket < static_cast<std::size_t>(sockets); ++socket) {
          HVD_TRY_ASSIGN(auto pair, connect(first.peers[static_cast<std::size_t>(first.rank)],
                                            first.peers[static_cast<std::size_t>(second.rank)]));
          first.lane[to_second + socket] = std::move(pair.first);
          second.lane[to_first + socket] = std::move(pair.second);
        }
      }
    }
  }
  return Status::ok();
}

/// What the process sets of one world of threads share. Thread-safe.
class ThreadSets {
 public:
  explicit ThreadSets(std::vector<PeerInfo> peers) : peers_(std::move(peers)) {}

  /// The first member that comes connects all of them; each takes its own.
  Result<SetLinks> take(const SetWiring::Plan& plan) {
    Lock lock(mutex_);
    auto [found, is_first] = waiting_.try_emplace(plan.number);
    if (is_first) {
      const Status status = connect_all(plan, found->second);
      if (!status.is_ok()) {
        waiting_.erase(found);
        return status;
      }
    }
    auto mine = found->second.extract(plan.rank);
    if (found->second.empty()) waiting_.erase(found);
    if (mine.empty()) return error(Code::kInternal, "rank {} connects twice", plan.rank);
    return std::move(mine.mapped());
  }

 private:
  using ByRank = std::map<int, SetLinks>;

  Status connect_all(const SetWiring::Plan& plan, ByRank& links) const {
    const WiringShape shape(plan.nodes);
    for (int node = 0; node < shape.nodes(); ++node) {
      const int local_size = shape.local_size(node);
      HVD_TRY_ASSIGN(auto segment, SharedSegment::create_private(
                                       {.local_size = local_size,
                                        .memory_bytes = plan.memory_bytes(local_size)}));
      for (const int rank : shape.ranks_of(node)) {
        SetLinks& mine = links[rank];
        mine.memory = segment->memory();
        mine.owner = segment;
        mine.lane.resize(plan.nodes.size());
        mine.lanes = shape.lanes();
      }
    }
    for (int lane = 0; lane < shape.lanes(); ++lane) {
      for (int a = 0; a < shape.nodes(); ++a) {
        for (int b = a + 1; b < shape.nodes(); ++b) {
          const int first = shape.rank_at(a, lane);
          const int second = shape.rank_at(b, lane);
          HVD_TRY_ASSIGN(auto pair, connect(peers_[static_cast<std::size_t>(first)],
                                            peers_[static_cast<std::size_t>(second)]));
          links[first].lane[static_cast<std::size_t>(b)] = std::move(pair.first);
          links[second].lane[static_cast<std::size_t>(a)] = std::move(pair.second);
        }
      }
    }
    return Status::ok();
  }

  const std::vector<PeerInfo> peers_;
  Mutex mutex_;
  std::map<std::uint64_t, ByRank> waiting_ HVD_GUARDED_BY(mutex_);
};

class ThreadSetWiring : public SetWiring {
 public:
  explicit ThreadSetWiring(std::shared_ptr<ThreadSets> sets) : sets_(std::move(sets)) {}
  Result<std::string> offer() override { return std::string("here"); }
  Result<SetLinks> connect(const Plan& plan) override { return sets_->take(plan); }
  void withdraw() override {}
  void interrupt() override {}

 private:
  std::shared_ptr<ThreadSets> sets_;  ///< With the other ranks of the world.
};

}  // namespace

Result<std::vector<Wiring>> wire_threads(const ThreadWorldOptions& options) {
  HVD_TRY_ASSIGN(const WiringShape shape, shape_of(options));
  const std::vector<PeerInfo> peers = peers_of(shape);
  const auto sets = std::make_shared<ThreadSets>(peers);
  std::vector<Wiring> wirings(static_cast<std::size_t>(options.size));
  for (int rank = 0; rank < options.size; ++rank) {
    Wiring& wiring = wirings[static_cast<std::size_t>(rank)];
    wiring.rank = rank;
    wiring.size = options.size;
    wiring.peers = peers;
    wiring.lane.resize(first_link(shape.nodes(), options.sockets));
    wiring.sockets = options.sockets;
    wiring.lanes = shape.lanes();
    wiring.sets = std::make_unique<ThreadSetWiring>(sets);
    wiring.bootstrap = "threads";
    wiring.bootstrap_reason = "the ranks are threads of one process";
  }
  for (int node = 0; node < shape.nodes(); ++node) {
    HVD_TRY(join_node(shape.ranks_of(node), options, wirings));
  }
  HVD_TRY(join_tree(shape, wirings));
  HVD_TRY(join_lanes(shape, options.sockets, wirings));
  return wirings;
}

}  // namespace hvd
