// SPDX-License-Identifier: Apache-2.0
// The descriptors that wake the engine's thread, and what their events mean.
#include <algorithm>

#include "base/log.h"
#include "base/process_state.h"
#include "engine/engine_impl.h"

namespace hvd {
namespace {

enum class Tag : std::uint64_t { kBell, kProcess, kTree, kLane };

std::uint64_t make_tag(Tag tag, int process_set, int index) {
  return (static_cast<std::uint64_t>(tag) << 56) | (static_cast<std::uint64_t>(process_set) << 24) |
         static_cast<std::uint64_t>(index);
}

}  // namespace

Status Engine::Impl::watch_descriptors() {
  HVD_TRY(poller_.add(wiring_.node.doorbell->fd(), make_tag(Tag::kBell, 0, 0)));
  for (std::size_t i = 0; i < wiring_.node.pid_fds.size(); ++i) {
    const int fd = wiring_.node.pid_fds[i].get();
    if (fd < 0) {
      const bool is_me = i == static_cast<std::size_t>(world_.local_rank);
      if (!is_me && wiring_.node.life_locks.is_open()) watched_by_lock_.push_back(i);
      continue;
    }
    HVD_TRY(poller_.add(fd, make_tag(Tag::kProcess, 0, static_cast<int>(i))));
    job_descriptors_.push_back(fd);
  }
  if (wiring_.node.life_locks.is_open()) {
    job_descriptors_.push_back(wiring_.node.life_locks.fd());
  }
  const auto watch_tree = [&](const Link* link) -> Status {
    if (link == nullptr) return Status::ok();
    job_descriptors_.push_back(link->fd());
    return poller_.add_edge(link->fd(), make_tag(Tag::kTree, 0, 0));
  };
  HVD_TRY(watch_tree(wiring_.parent.get()));
  for (const auto& child : wiring_.children) HVD_TRY(watch_tree(child.get()));
  return Status::ok();
}

Status Engine::Impl::watch_lanes(const SetPlane& plane) {
  const auto& lane = plane.links.lane;
  for (std::size_t i = 0; i < lane.size(); ++i) {
    if (lane[i] == nullptr) continue;
    HVD_TRY(poller_.add_edge(
        lane[i]->fd(), make_tag(Tag::kLane, plane.communicator.process_set, static_cast<int>(i))));
  }
  return Status::ok();
}

void Engine::Impl::unwatch_lanes(const SetPlane& plane) {
  for (const auto& link : plane.links.lane) {
    if (link != nullptr) poller_.remove(link->fd());
  }
}

void Engine::Impl::publish_descriptors() {
  auto list = std::make_unique<std::vector<int>>(job_descriptors_);
  for (const auto& plane : planes_) {
    for (const auto& link : plane->links.lane) {
      if (link != nullptr) list->push_back(link->fd());
    }
  }
  descriptors_.store(list.get());
  descriptor_list_ = std::move(list);
}

void Engine::Impl::handle_event(const Poller::Event& event) {
  const auto tag = static_cast<Tag>(event.tag >> 56);
  const auto index = static_cast<std::size_t>(event.tag & 0xFFFFFF);
  if (tag == Tag::kBell) {
    wiring_.node.doorbell->drain();
  } else if (tag == Tag::kProcess) {
    poller_.remove(wiring_.node.pid_fds[index].get());
    Lock lock(progress_);
    process_ended(index);
  } else if (tag == Tag::kLane && event.hung_up) {
    Lock lock(progress_);
    const SetPlane* plane = find_plane(static_cast<int>((event.tag >> 24) & 0xFFFFFFFF));
    if (plane == nullptr) return;  // the set was removed meanwhile
    const Link& lane = *plane->links.lane[index];
    poller_.remove(lane.fd());
    peer_gone(lane.peer_rank(), "its connection was closed", false);
  }
}

void Engine::Impl::process_ended(std::size_t local_rank) {
  const std::string farewell = negotiation_->farewell_of(static_cast<int>(local_rank));
  peer_gone(world_.nodes[static_cast<std::size_t>(world_.node)][local_rank],
            farewell.empty() ? "its process has ended without shutting hvd down" : farewell, true);
}

void Engine::Impl::look_at_locks() {
  for (std::size_t i = 0; i < watched_by_lock_.size();) {
    const std::size_t index = watched_by_lock_[i];
    if (!wiring_.node.life_locks.has_ended(static_cast<int>(index))) {
      ++i;
      continue;
    }
    // Before its end is told: the steps that this takes may come here again.
    watched_by_lock_.erase(watched_by_lock_.begin() + static_cast<std::ptrdiff_t>(i));
    process_ended(index);
  }
}

void Engine::Impl::check_lanes() {
  for (const auto& plane : planes_) {
    if (plane->reduction->in_flight() == 0 && !suspicion_) continue;
    for (const auto& link : plane->links.lane) {
      if (link == nullptr) continue;
      const auto unanswered = link->unanswered();
      if (unanswered < options_.link_timeout) continue;
      return negotiation_->spread_loss(
          link->peer_rank(), lost_text(link->peer_rank(), link->describe_silence(unanswered)));
    }
  }
}

std::optional<char> Engine::Impl::state_of_local_rank(std::size_t index) const {
  const NodeGroup& node = wiring_.node;
  if (node.pid_fds[index].is_open()) return state_of_process(node.pid_fds[index].get());
  const auto rank = world_.nodes[static_cast<std::size_t>(world_.node)][index];
  const long pid = node.life_locks.pid_of(static_cast<int>(index));
  // Kernels before 4.14 give the number of another PID name space.
  if (pid == 0 || pid != peers_[static_cast<std::size_t>(rank)].pid) return std::nullopt;
  return state_of_pid(pid);
}

void Engine::Impl::look_at_processes(Clock::time_point now) {
  // The first rank of the node looks at all, the second at the first.
  if (world_.local_rank > 1 || now < next_process_look_) return;
  next_process_look_ = now + kProcessLook;
  const auto& local = world_.nodes[static_cast<std::size_t>(world_.node)];
  const std::size_t count = world_.local_rank == 0 ? wiring_.node.pid_fds.size() : 1;
  for (std::size_t i = 0; i < std::min(count, wiring_.node.pid_fds.size()); ++i) {
    const auto state = state_of_local_rank(i);
    const std::string_view stop = state ? describe_stop(*state) : std::string_view();
    if (stop.empty()) {
      stopped_looks_.erase(i);
    } else {
      is_stopped(local[i], ++stopped_looks_[i], stop);
    }
  }
}

void Engine::Impl::is_stopped(int rank, int looks, std::string_view stop) {
  const PeerInfo& peer = peers_[static_cast<std::size_t>(rank)];
  if (looks == 2) {
    log(LogLevel::kWarning, "stall", "rank {} on host {} (process {}) is {}; the job waits for it",
        peer.rank, peer.host, peer.pid, stop);
  }
  // Looks are counted, not time: while this process is stopped itself it does not look.
  const std::chrono::milliseconds known = kProcessLook * (looks - 1);
  if (options_.silence_timeout.count() == 0 || known < options_.silence_timeout || looks < 2)
    return;
  negotiation_->spread_loss(
      rank, lost_text(rank, format_text(
                                "its process is {} for {} s or longer; "
                                "HVD_SILENCE_TIMEOUT_SECONDS allows {:.6g}",
                                stop, known.count() / 1000,
                                std::chrono::duration<double>(options_.silence_timeout).count())));
}

bool Engine::Impl::awaits_answer() const {
  if (negotiation_->awaits_answer()) return true;
  return std::any_of(planes_.begin(), planes_.end(), [](const auto& plane) {
    const auto& lane = plane->links.lane;
    return std::any_of(lane.begin(), lane.end(), [](const auto& link) {
      return link != nullptr && link->unanswered().count() > 0;
    });
  });
}

std::string Engine::Impl::lost_text(int rank, const std::string& cause) const {
  const PeerInfo& peer = peers_[static_cast<std::size_t>(rank)];
  return format_text("rank {} on host {} (process {}) is lost: {}", rank, peer.host, peer.pid,
                     cause);
}

void Engine::Impl::suspect(int rank, std::string text) {
  // The end of a connection names the peer; a failure of ours does not, and the first one is told.
  const bool is_ours = rank == wiring_.rank;
  if (suspicion_ && (is_ours || suspicion_->rank != wiring_.rank)) return;
  const auto due = suspicion_ ? suspicion_->due : Clock::now() + kPatience;
  suspicion_ = Suspicion{rank, std::move(text), due};
}

/// What other nodes say comes through the first rank of this one. Where that is stopped, a
/// connection that ended is most often of ranks that have given it up: it is the cause.
bool Engine::Impl::blames_first_of_node() {
  if (world_.local_rank == 0) return false;
  const auto state = state_of_local_rank(0);
  const std::string_view stop = state ? describe_stop(*state) : std::string_view();
  if (stop.empty()) return false;
  const int first = world_.nodes[static_cast<std::size_t>(world_.node)].front();
  negotiation_->spread_loss(
      first, lost_text(first, format_text("its process is {}, and a rank that needs it has ended "
                                          "its connection",
                                          stop)));
  return true;
}

void Engine::Impl::peer_gone(int rank, const std::string& cause, bool certain) {
  // What it said before it went comes first; other sets may keep us moving for ever.
  for (int steps = 0; steps < kLastWords && step(); ++steps) {
  }
  if (is_over() || all_left_.load()) return;
  if (left_.contains(rank)) {
    // It said farewell, so most of us can do without it: not those for whom it spoke, nor what is
    // half done with it.
    const auto node = static_cast<std::size_t>(world_.node);
    const bool spoke_for_us = rank == 0 || rank == world_.nodes[node].front();
    if (spoke_for_us || has_batch_with(rank)) return end_epoch(gone_after_leaving(rank));
    negotiation_->forget_reader(rank);
    return;
  }
  if (!certain) return suspect(rank, lost_text(rank, cause));
  negotiation_->spread_loss(rank, lost_text(rank, cause));
  step();
}

void Engine::Impl::lose_myself(const Status& cause) {
  {
    Lock lock(progress_);
    if (!is_over()) {
      negotiation_->spread_loss(
          wiring_.rank,
          lost_text(wiring_.rank, "its engine cannot wait for events: " + cause.message()));
      step();
    }
    end_epoch(cause);  // on the way out a loss may end nothing
  }
  completion_.run_callbacks();
  send_last_words();
}

Status Engine::Impl::gone_after_leaving(int rank) const {
  return error(
      Code::kAborted,
      "rank {}: rank {} on host {} has left the job (shutdown) and ended; the others cannot "
      "go on without it: call shutdown on every rank",
      wiring_.rank, rank, peers_[static_cast<std::size_t>(rank)].host);
}

}  // namespace hvd
