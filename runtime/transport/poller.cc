// SPDX-License-Identifier: Apache-2.0
#include "transport/poller.h"

#include <poll.h>
#include <sys/epoll.h>

#include <array>
#include <cerrno>

namespace hvd {
namespace {

epoll_event event_of(std::uint32_t interest, std::uint64_t tag) {
  epoll_event event{};
  event.events = interest;
  event.data.u64 = tag;
  return event;
}

Status control(int epoll, int fd, std::uint32_t interest, std::uint64_t tag) {
  epoll_event event = event_of(interest, tag);
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0) return Status::ok();
  return Status::system(format_text("cannot watch descriptor {} (epoll_ctl)", fd), errno);
}

}  // namespace

Result<Poller> Poller::create() {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.is_open()) return Status::system("epoll_create1", errno);
  return Poller(std::move(epoll));
}

Status Poller::add(int fd, std::uint64_t tag) { return control(epoll_.get(), fd, EPOLLIN, tag); }

Status Poller::add_edge(int fd, std::uint64_t tag) {
  return control(epoll_.get(), fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, tag);
}

void Poller::hear(const Poller& inner, std::uint64_t tag, bool is_heard) {
  epoll_event event = event_of(is_heard ? std::uint32_t{EPOLLIN} : 0U, tag);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, inner.epoll_.get(), &event);
}

void Poller::remove(int fd) { ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

Result<std::size_t> Poller::wait(std::span<Event> events, Deadline deadline) {
  std::array<epoll_event, 64> raw;
  const auto room = static_cast<int>(std::min(events.size(), raw.size()));
  HVD_CHECK(room > 0);
  for (;;) {
    const int count = ::epoll_wait(epoll_.get(), raw.data(), room, deadline.poll_timeout_ms());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Status::system("epoll_wait", errno);
    for (int i = 0; i < count; ++i) {
      const auto& event = raw[static_cast<std::size_t>(i)];
      events[static_cast<std::size_t>(i)] = {
          .tag = event.data.u64,
          .hung_up = (event.events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0};
    }
    return static_cast<std::size_t>(count);
  }
}

Result<std::size_t> Poller::wait_briefly(std::span<Event> events,
                                         std::chrono::nanoseconds duration) {
  pollfd set{.fd = epoll_.get(), .events = POLLIN, .revents = 0};
  const timespec left{.tv_sec = 0, .tv_nsec = static_cast<long>(duration.count())};
  if (::ppoll(&set, 1, &left, nullptr) < 0 && errno != EINTR) {
    return Status::system("ppoll", errno);
  }
  return wait(events, Deadline::at(Clock::now()));
}

}  // namespace hvd
