// SPDX-License-Identifier: Apache-2.0
// What goes through host memory: operation x type x size x world, bit for bit as on CPU memory.
#include <sched.h>

#include "backends/staged/staging.h"
#include "doubles/cuda/double_cuda.h"
#include "world/gpu_cases.h"

namespace hvd {
namespace {

class StagedWorld : public testing::TestWithParam<std::vector<int>> {};

TEST_P(StagedWorld, GivesTheBitsOfCpuMemoryForEveryOperationAndType) {
  GpuWorld world(GetParam());
  for (const Operation& operation : gpu_operations()) {
    for (const DataType dtype : kTypesOfEachOperation) {
      expect_equal_on_both(world, {operation, dtype, 7});
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

/// False: so many copies were not begun in time.
bool copies_begin(std::uint64_t count) {
  for (const Deadline deadline = soon(); !deadline.has_passed(); sched_yield()) {
    if (double_calls("cuMemcpyAsync") >= count) return true;
  }
  return false;
}

TEST(StagedPieces, AreOnTheirWayTogether) {
  double_reset();
  GpuWorld world({1});
  Engine& engine = world.engine(0);
  Gpu& gpu = GpuWorld::gpu(0);
  const OwnStream stream(gpu);
  constexpr std::size_t kPieces = 2 * Staging::kChunks;
  constexpr std::size_t kCount = kPieces * Staging::kChunkBytes / sizeof(float);
  const DeviceTensor<float> tensor(gpu, std::vector<float>(kCount, 1.0F));
  const std::uint64_t before = double_calls("cuMemcpyAsync");
  double_hang(static_cast<CUstream>(stream.get()));
  const auto handle = engine.submit(
      gpu_request("x", 0, tensor, stream.get(), Allreduce{.op = ReduceOp::kSum, .postscale = 3.0}));
  ASSERT_TRUE(handle.is_ok()) << handle.status().message();
  // All chunks are to be filled, though nothing has come to the host.
  EXPECT_TRUE(copies_begin(before + Staging::kChunks));
  double_hang_at("cuMemcpyAsync", 1);  // the copy of the first piece back to the device
  double_release();
  // The host goes on with the other chunks, and the next copies to the host are in their stream.
  EXPECT_TRUE(copies_begin(before + 3 * Staging::kChunks));
  EXPECT_FALSE(engine.poll(handle.value()).value());
  double_release();
  EXPECT_TRUE(engine.wait(handle.value(), soon()).is_ok());
  EXPECT_TRUE(tensor.values() == std::vector<float>(kCount, 3.0F));
  engine.release(handle.value());
  double_reset();
}

}  // namespace
}  // namespace hvd
