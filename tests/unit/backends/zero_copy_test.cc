// SPDX-License-Identifier: Apache-2.0
// Whether bytes pass through the slots of a node, or are reduced where they lie: two ranks in one
// thread, on shared memory that the test looks into.
#include "backends/shm/zero_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "backends/shm/shm_backend.h"
#include "thread_ranks.h"
#include "transport/shared_segment.h"

namespace hvd {
namespace {

constexpr std::uint32_t kValues[] = {0x5a5a1234, 0x11112222};
constexpr std::uint32_t kSum = kValues[0] + kValues[1];
constexpr std::size_t kCount = 5000;

/// Ranks 1 and 2 of a node of three, as a process set has them.
class Pair {
 public:
  Pair() {
    constexpr int kNode = 3;
    segment_ = SharedSegment::create_private({.local_size = kNode,
                                              .memory_bytes = kShmBackend.memory_bytes(2),
                                              .arena_bytes = std::size_t{1} << 20})
                   .value();
    for (int rank = 0; rank < 2; ++rank) {
      arenas_.push_back(std::make_shared<SharedArena>(segment_, rank + 1, kNode));
      communicators_.push_back({.process_set = 1,
                                .rank = rank,
                                .size = 2,
                                .world_ranks = {1, 2},
                                .nodes = {{0, 1}},
                                .node = 0,
                                .local_rank = rank,
                                .hosts = {"here", "here"}});
    }
    for (int rank = 0; rank < 2; ++rank) {
      auto backend = kShmBackend.create({.communicator = communicators_[at(rank)],
                                         .memory = segment_->memory(),
                                         .doorbell = nullptr,
                                         .lane = {nullptr},
                                         .lanes = 0,
                                         .arena = view(rank)});
      backends_.push_back(std::move(backend).value());
    }
  }

  ArenaView view(int rank) const { return {.arena = arenas_[at(rank)], .parts = {1, 2}}; }
  std::uint32_t* shared(int rank) const {
    const std::size_t bytes = kCount * sizeof(std::uint32_t);
    return static_cast<std::uint32_t*>(arenas_[at(rank)]->allocate(bytes).value());
  }

  /// An allreduce in place of the tensors of both ranks, each full of its value.
  void allreduce(std::uint32_t* first, std::uint32_t* second) {
    std::vector<std::unique_ptr<Task>> tasks;
    std::uint32_t* const tensors[] = {first, second};
    for (int rank = 0; rank < 2; ++rank) {
      std::uint32_t* const tensor = tensors[rank];
      std::fill_n(tensor, kCount, kValues[rank]);
      Batch batch;
      batch.operation = Allreduce{};
      batch.dtype = DataType::kUint32;
      batch.segments = {{.input = tensor, .output = tensor, .count = kCount}};
      tasks.push_back(backends_[at(rank)]->start(std::move(batch)).value());
    }
    finish(tasks);
    for (const std::uint32_t* tensor : tensors) {
      EXPECT_EQ(std::count(tensor, tensor + kCount, kSum), kCount);
    }
  }

  /// True when an element of a tensor, or the result that took its place, lies in a slot.
  bool used_slots() const {
    const auto memory = segment_->memory();
    for (std::size_t i = 0; i + sizeof(std::uint32_t) <= memory.size(); i += 4) {
      std::uint32_t word = 0;
      std::memcpy(&word, memory.data() + i, sizeof(word));
      if (word == kValues[0] || word == kValues[1] || word == kSum) return true;
    }
    return false;
  }

 private:
  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

  std::shared_ptr<SharedSegment> segment_;
  std::vector<std::shared_ptr<SharedArena>> arenas_;
  std::vector<Communicator> communicators_;
  std::vector<std::unique_ptr<Backend>> backends_;
};

TEST(ZeroCopy, MovesNoElementOfSharedTensorsThroughSlots) {
  Pair pair;
  std::uint32_t* const first = pair.shared(0);
  std::uint32_t* const second = pair.shared(1);
  pair.allreduce(first, second);
  EXPECT_FALSE(pair.used_slots());
  pair.allreduce(first, second);
  EXPECT_FALSE(pair.used_slots()) << "the second time";
}

TEST(ZeroCopy, NeedsSharedTensorsOnEveryRank) {
  std::vector<std::uint32_t> mine(kCount);
  for (const int with_private : {0, 1}) {
    Pair pair;
    std::uint32_t* const shared = pair.shared(1 - with_private);
    pair.allreduce(with_private == 0 ? mine.data() : shared,
                   with_private == 1 ? mine.data() : shared);
    EXPECT_TRUE(pair.used_slots()) << "rank " << with_private << " has private memory";
  }
}

TEST(ZeroCopy, IsPossibleWhereEverythingIsShared) {
  const Pair pair;
  std::uint32_t* const shared = pair.shared(0);
  std::vector<std::uint32_t> own(kCount);
  const auto possible = [&](const void* input, void* output, const Operation& operation,
                            std::size_t count = kCount) {
    Batch batch;
    batch.operation = operation;
    batch.segments = {{.input = input, .output = output, .count = count}};
    return ZeroCopy::is_possible(pair.view(0), batch);
  };
  EXPECT_TRUE(possible(shared, shared, Allreduce{}));
  EXPECT_FALSE(possible(own.data(), shared, Allreduce{}));
  EXPECT_FALSE(possible(shared, own.data(), Allreduce{}));
  EXPECT_FALSE(possible(pair.shared(1), shared, Allreduce{})) << "another rank's part";
  EXPECT_FALSE(possible(shared, shared, Allreduce{}, std::size_t{1} << 20)) << "beyond the part";
  EXPECT_TRUE(possible(own.data(), own.data(), Allreduce{}, 0)) << "no element anywhere";
  EXPECT_FALSE(possible(shared, shared, Allreduce{.wire = Wire::kFloat16}));
  EXPECT_FALSE(possible(shared, shared, Broadcast{}));
  Batch batch;
  batch.segments = {{.input = shared, .output = shared, .count = kCount}};
  EXPECT_FALSE(ZeroCopy::is_possible({}, batch)) << "no arena";
}

}  // namespace
}  // namespace hvd
