// SPDX-License-Identifier: Apache-2.0
#include "backends/node/moving_task.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace hvd {
namespace {

constexpr std::size_t kPageBytes = 4096;

/// Page-aligned zeros, as a node's segment is born.
class NodeMemory {
 public:
  explicit NodeMemory(int ranks) : pages_(NodePlane::memory_bytes(ranks) / kPageBytes) {}
  std::span<std::byte> bytes() { return {pages_.front().bytes, pages_.size() * kPageBytes}; }

 private:
  struct alignas(kPageBytes) Page {
    std::byte bytes[kPageBytes] = {};
  };
  std::vector<Page> pages_;
};

struct Moving {
  const char* name;
  Operation operation;
  std::size_t row_bytes;  ///< Of the counts of one tensor, for two ranks.
};

const Moving kMovings[] = {
    {"allgather", Allgather{}, 8}, {"gather", Gather{0}, 8}, {"alltoall", Alltoall{}, 16}};

Batch batch_of(const Operation& operation, const std::vector<char>& input) {
  Batch batch;
  batch.operation = operation;
  batch.dtype = DataType::kInt8;
  batch.segments = {{input.data(), nullptr, input.size(), 1}};
  if (std::holds_alternative<Alltoall>(operation)) {
    batch.splits = {input.size() / 2, input.size() - input.size() / 2};
  }
  return batch;
}

// What a rank tells first must not reach the slot of another number, which a rank that is late may
// still have to look at, nor that of another rank.
TEST(MovingTask, TellsNoMoreThanItsSlotHolds) {
  for (const Moving& moving : kMovings) {
    const std::size_t fitting = NodePlane::kSmallBytes - moving.row_bytes;
    for (const std::size_t count :
         {fitting - 1, fitting, fitting + 1, NodePlane::kSmallBytes, NodePlane::kSmallBytes + 1}) {
      for (const std::uint64_t number : {1, 2}) {
        NodeMemory memory(2);
        NodePlane plane(memory.bytes(), 0, 2, nullptr);
        plane.next_small = number;
        Communicator communicator;
        communicator.size = 2;
        communicator.nodes = {{0, 1}};
        const std::vector<char> input(count, 'x');
        const auto task =
            make_moving_task(plane, communicator, batch_of(moving.operation, input), {});
        EXPECT_EQ(task->advance(), Progress::kMoved);
        const std::byte* const slot = plane.small(0, number);
        const std::byte* const next = slot + NodePlane::kSmallBytes;
        const std::byte* const end = memory.bytes().data() + memory.bytes().size();
        EXPECT_TRUE(std::all_of(next, end, [](std::byte one) { return one == std::byte{0}; }))
            << moving.name << " of " << count << " bytes";
        const bool tells_rows = slot[moving.row_bytes] == std::byte{'x'};
        EXPECT_EQ(tells_rows, count <= fitting) << moving.name << " of " << count << " bytes";
      }
    }
  }
}

}  // namespace
}  // namespace hvd
