// SPDX-License-Identifier: Apache-2.0
// What goes through host memory: operation x type x size x world, bit for bit as on CPU memory.
#include "backends/staged/staging.h"
#include "world/gpu_cases.h"

namespace hvd {
namespace {

class StagedWorld : public testing::TestWithParam<std::vector<int>> {};

TEST_P(StagedWorld, GivesTheBitsOfCpuMemoryForEveryOperationAndType) {
  GpuWorld world(GetParam());
  for (const Operation& operation : gpu_operations()) {
    for (int dtype = 0; dtype < kDataTypeCount; ++dtype) {
      expect_equal_on_both(world, {operation, static_cast<DataType>(dtype), 7});
    }
  }
}

TEST_P(StagedWorld, GivesTheBitsOfCpuMemoryForEverySize) {
  GpuWorld world(GetParam());
  const auto chunk = static_cast<std::int64_t>(Staging::kChunkBytes / sizeof(float));
  for (const Operation& operation : gpu_operations()) {
    for (const std::int64_t rows : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1001}}) {
      expect_equal_on_both(world, {operation, DataType::kFloat32, rows});
    }
  }
  for (const Operation& operation :
       {Operation(Allreduce{ReduceOp::kAverage}), Operation(Broadcast{1}), Operation(Reduce{1}),
        Operation(Allgather{})}) {
    // More pieces than chunks, and pieces that hold the end of one tensor and the next.
    for (const std::int64_t rows : {chunk - 1, chunk, chunk * 3 + 5}) {
      expect_equal_on_both(world, {operation, DataType::kFloat32, rows, 1});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, StagedWorld,
                         testing::Values(std::vector<int>{2}, std::vector<int>{2, 1}));

}  // namespace
}  // namespace hvd
