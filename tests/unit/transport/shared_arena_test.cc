// SPDX-License-Identifier: Apache-2.0
#include "transport/shared_arena.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <vector>

namespace hvd {
namespace {

constexpr std::size_t kPart = std::size_t{8} << 20;

std::shared_ptr<SharedSegment> make_segment() {
  return SharedSegment::create({.local_size = 2, .memory_bytes = 64, .arena_bytes = kPart}).value();
}

TEST(SharedArena, GivesAlignedMemoryOfItsOwnPart) {
  SharedArena arena(make_segment(), 1, 2);
  EXPECT_EQ(arena.part_bytes(), kPart);
  std::vector<void*> blocks;
  for (const std::size_t bytes : {1U, 63U, 64U, 65U, 4096U, 5000U, 0U}) {
    auto memory = arena.allocate(bytes);
    ASSERT_TRUE(memory.is_ok()) << memory.status().message();
    const auto address = reinterpret_cast<std::uintptr_t>(memory.value());
    EXPECT_EQ(address % (bytes >= 4096 ? 4096 : 64), 0U);
    ASSERT_TRUE(arena.offset_of(memory.value(), bytes));
    EXPECT_EQ(arena.at(1, *arena.offset_of(memory.value(), bytes)), memory.value());
    std::memset(memory.value(), 7, bytes);
    blocks.push_back(memory.value());
  }
  EXPECT_GT(arena.used_bytes(), 9000U);
  for (void* block : blocks) EXPECT_TRUE(arena.deallocate(block));
  EXPECT_EQ(arena.used_bytes(), 0U);
  // Everything came together again: the whole part is one block.
  auto whole = arena.allocate(kPart);
  ASSERT_TRUE(whole.is_ok()) << whole.status().message();
  EXPECT_EQ(arena.allocate(1).status().code(), Code::kSystem);
  EXPECT_TRUE(arena.deallocate(whole.value()));
}

TEST(SharedArena, IsSeenByEveryRankAtTheSameOffset) {
  const auto mine = make_segment();
  const auto theirs = SharedSegment::open(
      UniqueFd(::dup(mine->fd())), {.local_size = 2, .memory_bytes = 64, .arena_bytes = kPart});
  ASSERT_TRUE(theirs.is_ok()) << theirs.status().message();
  SharedArena first(mine, 0, 2);
  SharedArena second(theirs.value(), 1, 2);
  void* const memory = first.allocate(1 << 20).value();
  static_cast<unsigned char*>(memory)[12345] = 9;
  const std::size_t offset = *first.offset_of(memory, 1 << 20);
  EXPECT_EQ(second.at(0, offset)[12345], std::byte{9});
  EXPECT_TRUE(first.deallocate(memory));
  // A large block gives its pages back: it is zero again.
  EXPECT_EQ(second.at(0, offset)[12345], std::byte{0});
}

TEST(SharedArena, KnowsWhatIsNotItsOwn) {
  SharedArena arena(make_segment(), 0, 2);
  int local = 0;
  EXPECT_FALSE(arena.offset_of(&local, sizeof local));
  EXPECT_FALSE(arena.deallocate(&local));
  void* const memory = arena.allocate(128).value();
  EXPECT_FALSE(arena.offset_of(memory, kPart + 1)) << "reaches beyond the part";
  EXPECT_FALSE(arena.offset_of(arena.at(1, 0), 1)) << "of the other rank";
  EXPECT_FALSE(arena.deallocate(static_cast<std::byte*>(memory) + 64)) << "the middle of a block";
  EXPECT_TRUE(arena.deallocate(memory));
  EXPECT_FALSE(arena.deallocate(memory)) << "twice";
}

TEST(SharedArena, ReusesWhatWasFreed) {
  SharedArena arena(make_segment(), 0, 2);
  void* const first = arena.allocate(4096).value();
  void* const second = arena.allocate(4096).value();
  EXPECT_TRUE(arena.deallocate(first));
  EXPECT_EQ(arena.allocate(4096).value(), first);
  EXPECT_TRUE(arena.deallocate(second));
}

TEST(SharedArena, SaysWhatToDoWhenThereIsNone) {
  const auto segment = SharedSegment::create({.local_size = 1, .memory_bytes = 64});
  ASSERT_TRUE(segment.is_ok());
  SharedArena arena(segment.value(), 0, 1);
  const auto memory = arena.allocate(64);
  ASSERT_FALSE(memory.is_ok());
  EXPECT_NE(memory.status().message().find("HVD_ARENA_BYTES"), std::string::npos);
}

TEST(SharedArena, KeepsWhatOthersMayStillWriteTo) {
  SharedArena arena(make_segment(), 0, 2);
  void* const lent = arena.allocate(4096).value();
  arena.keep();
  EXPECT_TRUE(arena.deallocate(lent));
  EXPECT_FALSE(arena.deallocate(lent));
  EXPECT_NE(arena.allocate(4096).value(), lent);
  EXPECT_EQ(arena.allocate(kPart).status().code(), Code::kSystem);
}

}  // namespace
}  // namespace hvd
