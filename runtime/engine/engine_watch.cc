// SPDX-License-Identifier: Apache-2.0
// The descriptors that wake the engine's thread, and what their events mean.
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
    if (fd < 0) continue;
    HVD_TRY(poller_.add(fd, make_tag(Tag::kProcess, 0, static_cast<int>(i))));
    job_descriptors_.push_back(fd);
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
    const std::string farewell = negotiation_->farewell_of(static_cast<int>(index));
    peer_gone(world_.nodes[static_cast<std::size_t>(world_.node)][index],
              farewell.empty() ? "its process has ended without shutting hvd down" : farewell,
              true);
  } else if (tag == Tag::kLane && event.hung_up) {
    Lock lock(progress_);
    const SetPlane* plane = find_plane(static_cast<int>((event.tag >> 24) & 0xFFFFFFFF));
    if (plane == nullptr) return;  // the set was removed meanwhile
    const Link& lane = *plane->links.lane[index];
    poller_.remove(lane.fd());
    peer_gone(lane.peer_rank(), "its connection was closed", false);
  }
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

Status Engine::Impl::gone_after_leaving(int rank) const {
  return error(
      Code::kAborted,
      "rank {}: rank {} on host {} has left the job (shutdown) and ended; the others cannot "
      "go on without it: call shutdown on every rank",
      wiring_.rank, rank, peers_[static_cast<std::size_t>(rank)].host);
}

}  // namespace hvd
