// SPDX-License-Identifier: Apache-2.0
#include "engine/watch.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace hvd {
namespace {

enum class Tag : std::uint64_t { kBell, kProcess, kTree, kLane, kLinks };

constexpr std::uint64_t kLinksTag = static_cast<std::uint64_t>(Tag::kLinks) << 56;

std::uint64_t make_tag(Tag tag, int process_set, std::size_t index) {
  return (static_cast<std::uint64_t>(tag) << 56) | (static_cast<std::uint64_t>(process_set) << 24) |
         index;
}

}  // namespace

Result<std::unique_ptr<Watch>> Watch::open(const Wiring& wiring) {
  HVD_TRY_ASSIGN(Poller poller, Poller::create());
  HVD_TRY_ASSIGN(Poller links, Poller::create());
  std::unique_ptr<Watch> watch(
      new Watch(std::move(poller), std::move(links), *wiring.node.doorbell));
  HVD_TRY(watch->poller_.add(watch->links_, kLinksTag));
  HVD_TRY(watch->add_job(wiring));
  watch->publish();
  return watch;
}

Status Watch::add_job(const Wiring& wiring) {
  const NodeGroup& node = wiring.node;
  HVD_TRY(poller_.add(bell_.fd(), make_tag(Tag::kBell, 0, 0)));
  for (std::size_t i = 0; i < node.pid_fds.size(); ++i) {
    const int fd = processes_.emplace_back(node.pid_fds[i].get());
    if (fd < 0) continue;
    HVD_TRY(poller_.add(fd, make_tag(Tag::kProcess, 0, i)));
    job_.push_back(fd);
  }
  if (node.life_locks.is_open()) job_.push_back(node.life_locks.fd());
  const auto watch_tree = [&](const Link* link) -> Status {
    if (link == nullptr) return Status::ok();
    job_.push_back(link->fd());
    has_links_ = true;
    return links_.add_edge(link->fd(), make_tag(Tag::kTree, 0, 0));
  };
  HVD_TRY(watch_tree(wiring.parent.get()));
  for (const auto& child : wiring.children) HVD_TRY(watch_tree(child.get()));
  return Status::ok();
}

Status Watch::add_lanes(int process_set, std::span<const std::unique_ptr<Link>> lane) {
  std::vector<int>& descriptors = lanes_[process_set];
  for (std::size_t i = 0; i < lane.size(); ++i) {
    if (lane[i] == nullptr) continue;
    HVD_TRY(links_.add_edge(lane[i]->fd(), make_tag(Tag::kLane, process_set, i)));
    has_links_ = true;
    descriptors.push_back(lane[i]->fd());
  }
  publish();
  return Status::ok();
}

void Watch::remove_lanes(int process_set, std::span<const std::unique_ptr<Link>> lane) {
  for (const auto& link : lane) {
    if (link != nullptr) links_.remove(link->fd());
  }
  lanes_.erase(process_set);
  publish();
}

void Watch::publish() {
  auto list = std::make_unique<std::vector<int>>(job_);
  for (const auto& [process_set, descriptors] : lanes_) {
    list->insert(list->end(), descriptors.begin(), descriptors.end());
  }
  published_.store(list.get());
  list_ = std::move(list);
}

std::size_t Watch::translate(std::span<const Poller::Event> raw, std::span<Event> events) {
  std::size_t count = 0;
  for (const Poller::Event& event : raw) {
    const auto tag = static_cast<Tag>(event.tag >> 56);
    const auto index = static_cast<std::size_t>(event.tag & 0xFFFFFF);
    if (tag == Tag::kBell) {
      bell_.drain();
    } else if (tag == Tag::kProcess) {
      poller_.remove(processes_[index]);
      events[count++] = {Event::Kind::kProcessEnded, 0, index};
    } else if (tag == Tag::kLane && event.hung_up) {
      const auto process_set = static_cast<int>((event.tag >> 24) & 0xFFFFFFFF);
      events[count++] = {Event::Kind::kLaneClosed, process_set, index};
    }
  }
  return count;
}

Result<std::span<const Watch::Event>> Watch::told(std::span<const Poller::Event> raw,
                                                  Events& events) {
  std::size_t count = translate(raw, events);
  const bool has_links = std::any_of(
      raw.begin(), raw.end(), [](const Poller::Event& event) { return event.tag == kLinksTag; });
  // The set of the links is one of `raw` itself, so that there is room.
  if (has_links) {
    HVD_TRY_ASSIGN(const std::size_t more, take_links(std::span(events).subspan(count)));
    count += more;
  }
  return std::span<const Event>(events).first(count);
}

Result<std::size_t> Watch::take_links(std::span<Event> events) {
  std::array<Poller::Event, std::tuple_size_v<Events>> raw;
  const auto room = std::span(raw).first(events.size());
  HVD_TRY_ASSIGN(const std::size_t count, links_.wait(room, Deadline::at(Clock::now())));
  return translate(room.first(count), events);
}

Result<std::span<const Watch::Event>> Watch::wait(Events& events, Deadline deadline) {
  std::array<Poller::Event, std::tuple_size_v<Events>> raw;
  HVD_TRY_ASSIGN(const std::size_t count, poller_.wait(raw, deadline));
  return told({raw.data(), count}, events);
}

Result<std::span<const Watch::Event>> Watch::wait_briefly(Events& events,
                                                          std::chrono::nanoseconds duration) {
  std::array<Poller::Event, std::tuple_size_v<Events>> raw;
  HVD_TRY_ASSIGN(const std::size_t count, poller_.wait_briefly(raw, duration));
  return told({raw.data(), count}, events);
}

void Watch::leave_links() {
  if (has_links_) poller_.hear(links_, kLinksTag, false);
}

Result<std::span<const Watch::Event>> Watch::look_at_links(Events& events) {
  if (!has_links_) return std::span<const Event>();
  HVD_TRY_ASSIGN(const std::size_t count, take_links(events));
  return std::span<const Event>(events).first(count);
}

void Watch::hear_links() {
  if (has_links_) poller_.hear(links_, kLinksTag, true);
}

void Watch::close_in_child() const {
  for (const int fd : *published_.load()) ::close(fd);
}

}  // namespace hvd
