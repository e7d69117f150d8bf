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

}  // namespace hvd
