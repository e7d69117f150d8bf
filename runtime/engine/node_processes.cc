// SPDX-License-Identifier: Apache-2.0
#include "engine/node_processes.h"

#include <poll.h>

#include <algorithm>

#include "base/process_state.h"
#include "collective/rank_set.h"

namespace hvd {

NodeProcesses::NodeProcesses(const Communicator& world, const std::vector<PeerInfo>& peers,
                             const NodeGroup& node)
    : world_(world), peers_(peers), node_(node) {
  if (!node.life_locks.is_open()) return;
  for (std::size_t i = 0; i < node.pid_fds.size(); ++i) {
    const bool is_me = i == static_cast<std::size_t>(world.local_rank);
    if (!is_me && !node.pid_fds[i].is_open()) watched_by_lock_.push_back(i);
  }
}

std::optional<std::size_t> NodeProcesses::take_ended_by_lock() {
  const auto found = std::find_if(
      watched_by_lock_.begin(), watched_by_lock_.end(),
      [this](std::size_t index) { return node_.life_locks.has_ended(static_cast<int>(index)); });
  if (found == watched_by_lock_.end()) return std::nullopt;
  const std::size_t index = *found;
  watched_by_lock_.erase(found);
  return index;
}

bool NodeProcesses::has_ended(int rank, bool is_lost) const {
  if (rank == world_.rank) return false;
  const auto found = std::find(local_ranks().begin(), local_ranks().end(), rank);
  if (found == local_ranks().end()) return true;  // on another node: it cannot reach our memory
  const auto index = static_cast<std::size_t>(found - local_ranks().begin());
  // A lost one may live: one that is stopped goes on to write when it is continued.
  if (index < node_.pid_fds.size() && node_.pid_fds[index].is_open()) {
    pollfd process{node_.pid_fds[index].get(), POLLIN, 0};
    return ::poll(&process, 1, 0) > 0;
  }
  if (node_.life_locks.is_open()) return node_.life_locks.has_ended(static_cast<int>(index));
  return is_lost;
}

std::string_view NodeProcesses::stop_of(std::size_t local_rank) const {
  std::optional<char> state;
  if (node_.pid_fds[local_rank].is_open()) {
    state = state_of_process(node_.pid_fds[local_rank].get());
  } else {
    const auto rank = static_cast<std::size_t>(local_ranks()[local_rank]);
    const long pid = node_.life_locks.pid_of(static_cast<int>(local_rank));
    // Kernels before 4.14 give the number of another PID name space.
    const auto stat = pid != 0 && pid == peers_[rank].pid ? stat_of(pid) : std::nullopt;
    if (stat) state = stat->state;
  }
  return state ? describe_stop(*state) : std::string_view();
}

std::vector<NodeProcesses::Stopped> NodeProcesses::look_if_due(Clock::time_point now) {
  std::vector<Stopped> stopped;
  if (world_.local_rank > 1 || now < next_look_) return stopped;
  next_look_ = now + kLookInterval;
  const std::size_t count = world_.local_rank == 0 ? node_.pid_fds.size() : 1;
  for (std::size_t i = 0; i < std::min(count, node_.pid_fds.size()); ++i) {
    const std::string_view stop = stop_of(i);
    if (stop.empty()) {
      stopped_looks_.erase(i);
    } else {
      stopped.push_back({local_ranks()[i], ++stopped_looks_[i], stop});
    }
  }
  return stopped;
}

std::string_view NodeProcesses::stop_of_first() const {
  if (world_.local_rank == 0 || node_.pid_fds.empty()) return {};
  return stop_of(0);
}

std::string NodeProcesses::describe(std::chrono::milliseconds tick) const {
  if (world_.local_size() == 1 || !node_.life_locks.is_open()) return {};
  std::vector<int> by_lock;
  for (std::size_t i = 0; i < local_ranks().size(); ++i) {
    if (local_ranks()[i] != world_.rank && !node_.pid_fds[i].is_open()) {
      by_lock.push_back(local_ranks()[i]);
    }
  }
  if (by_lock.empty()) return "lost: a process of this node that ends, seen at once by its pidfd\n";
  return format_text(
      "lost: a process of this node that ends, seen within {:.6g} s by its lock: ranks {} have no "
      "pidfd (Linux before 5.3, or pidfd_open is forbidden)\n",
      std::chrono::duration<double>(tick).count(), describe_list(by_lock));
}

}  // namespace hvd
