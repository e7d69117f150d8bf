// SPDX-License-Identifier: Apache-2.0
#include "transport/poller.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <chrono>

#include "socket_pair.h"
#include "transport/doorbell.h"
#include "transport/shared_segment.h"

namespace hvd {
namespace {

using std::chrono::milliseconds;

TEST(Poller, WaitEndsAtItsDeadline) {
  auto poller = Poller::create();
  ASSERT_TRUE(poller.is_ok());
  std::array<Poller::Event, 4> events;
  const auto begin = Clock::now();
  const auto count = poller.value().wait(events, Deadline::after(milliseconds(20)));
  ASSERT_TRUE(count.is_ok());
  EXPECT_EQ(count.value(), 0U);
  EXPECT_GE(Clock::now() - begin, milliseconds(20));
}

TEST(Poller, TellsWhichDescriptorHungUp) {
  auto poller = Poller::create();
  ASSERT_TRUE(poller.is_ok());
  auto [a, b] = socket_pair();
  ASSERT_TRUE(poller.value().add_edge(a.get(), 17).is_ok());
  std::array<Poller::Event, 4> events;
  // The first edge: writable.
  ASSERT_EQ(poller.value().wait(events, Deadline::after(milliseconds(1000))).value_or(0), 1U);
  EXPECT_EQ(events[0].tag, 17U);
  EXPECT_FALSE(events[0].hung_up);
  // Quiet until something changes.
  ASSERT_EQ(poller.value().wait(events, Deadline::after(milliseconds(0))).value_or(9), 0U);
  b.reset();
  ASSERT_EQ(poller.value().wait(events, Deadline::after(milliseconds(1000))).value_or(0), 1U);
  EXPECT_TRUE(events[0].hung_up);
  poller.value().remove(a.get());
}

TEST(Poller, RefusesAClosedDescriptor) {
  auto poller = Poller::create();
  ASSERT_TRUE(poller.is_ok());
  EXPECT_EQ(poller.value().add(-1, 0).code(), Code::kSystem);
}

struct TwoBells {
  std::shared_ptr<SharedSegment> segment =
      SharedSegment::create_private({.local_size = 2, .memory_bytes = 100}).value();
  Doorbell first;
  Doorbell second;
  std::array<UniqueFd, 2> bells = {UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
                                   UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))};
  TwoBells() {
    first = make(0);
    second = make(1);
  }
  Doorbell make(int local_rank) {
    std::vector<UniqueFd> copies;
    for (const UniqueFd& bell : bells) copies.emplace_back(::dup(bell.get()));
    return Doorbell(segment->words(), std::move(copies), local_rank);
  }
};

bool rings(const Doorbell& bell) {
  auto poller = Poller::create();
  EXPECT_TRUE(poller.is_ok() && poller.value().add(bell.fd(), 1).is_ok());
  std::array<Poller::Event, 1> events;
  return poller.value().wait(events, Deadline::after(milliseconds(0))).value_or(0) == 1;
}

TEST(Doorbell, RingsOnlyThoseWhoSleep) {
  TwoBells pair;
  pair.first.ring(1);
  EXPECT_FALSE(rings(pair.second));
  pair.second.set_asleep(true);
  EXPECT_TRUE(pair.second.is_asleep());
  pair.first.ring_others();
  EXPECT_TRUE(rings(pair.second));
  EXPECT_FALSE(rings(pair.first));
  pair.second.drain();
  EXPECT_FALSE(rings(pair.second));
  pair.second.drain();  // a quiet bell does not block
  pair.first.ring_self();
  EXPECT_TRUE(rings(pair.first));
}

TEST(SharedSegment, SharesItsMemoryThroughTheDescriptorOnly) {
  auto created = SharedSegment::create({.local_size = 3, .memory_bytes = 10'000});
  ASSERT_TRUE(created.is_ok()) << created.status().message();
  const auto& mine = *created.value();
  EXPECT_EQ(mine.words().size(), 3U);
  EXPECT_EQ(mine.memory().size(), 10'000U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(mine.memory().data()) % 4096, 0U);
  auto opened =
      SharedSegment::open(UniqueFd(::dup(mine.fd())), {.local_size = 3, .memory_bytes = 10'000});
  ASSERT_TRUE(opened.is_ok()) << opened.status().message();
  EXPECT_EQ(opened.value()->memory()[9'999], std::byte{0});
  mine.memory()[9'999] = std::byte{7};
  EXPECT_EQ(opened.value()->memory()[9'999], std::byte{7});
}

TEST(SharedSegment, SaysWhenAPeerExpectsAnotherSize) {
  auto created = SharedSegment::create({.local_size = 2, .memory_bytes = 4096});
  ASSERT_TRUE(created.is_ok());
  const auto opened = SharedSegment::open(UniqueFd(::dup(created.value()->fd())),
                                          {.local_size = 2, .memory_bytes = 8192});
  EXPECT_EQ(opened.status().code(), Code::kMismatch);
}

TEST(SharedSegment, SaysWhatToDoWhenMemoryIsShort) {
  const auto created =
      SharedSegment::create({.local_size = 2, .memory_bytes = std::size_t{1} << 50});
  ASSERT_FALSE(created.is_ok());
  EXPECT_EQ(created.status().code(), Code::kSystem);
  EXPECT_NE(created.status().message().find("memory"), std::string::npos);
}

}  // namespace
}  // namespace hvd
