// SPDX-License-Identifier: Apache-2.0
// Operations over NCCL: operation x type x size x world, as on CPU memory.
#include "world/gpu_cases.h"
#include "world/nccl_world.h"

namespace hvd {
namespace {

class NcclOperations : public NcclWorld, public testing::WithParamInterface<std::vector<int>> {};

TEST_P(NcclOperations, GiveWhatCpuMemoryGivesForEveryType) {
  NcclRanks world(GetParam());
  for (const Operation& operation : gpu_operations()) {
    for (const DataType dtype : kTypesOfEachOperation) {
      expect_equal_on_both(world,
                           {.operation = operation, .dtype = dtype, .values = GpuValues::kFew});
    }
  }
  EXPECT_GT(calls("ncclAllReduce"), 0);
  EXPECT_GT(calls("ncclSend"), 0);
}

TEST_P(NcclOperations, GiveWhatCpuMemoryGivesForEverySize) {
  NcclRanks world(GetParam());
  for (const Operation& operation : gpu_operations()) {
    for (const std::int64_t rows : {0, 1, 1001, 120'000}) {
      expect_equal_on_both(world,
                           {.operation = operation, .rows = rows, .values = GpuValues::kFew});
    }
  }
  // None of them took the way through host memory.
  for (const char* const call :
       {"ncclAllReduce", "ncclReduce", "ncclReduceScatter", "ncclBroadcast", "ncclSend"}) {
    EXPECT_GT(calls(call), 0) << call;
  }
}

TEST_P(NcclOperations, AddFloat8InNcclFrom224On) {
  for (const bool is_old : {false, true}) {
    double_nccl_reset();
    if (is_old) double_nccl_set_version(22304);
    NcclRanks world(GetParam());
    for (const DataType dtype : {DataType::kFloat8E4m3, DataType::kFloat8E5m2}) {
      for (const std::int64_t rows : {1, 1001}) {
        for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kProduct}) {
          // Through host memory the bits are those of CPU memory, whatever the values.
          expect_equal_on_both(world, {.operation = Allreduce{op},
                                       .dtype = dtype,
                                       .rows = rows,
                                       .values = is_old ? GpuValues::kAny : GpuValues::kFew});
        }
      }
    }
    EXPECT_EQ(calls("ncclAllReduce") == 0, is_old);
    expect_equal_on_both(world, {.operation = Broadcast{1}, .dtype = DataType::kFloat8E4m3});
    EXPECT_GT(calls("ncclBroadcast"), 0);
  }
}

/// Sets of the even and of the odd ranks, made by all of them.
std::vector<GpuCase> cases_of_halves(Engine& engine, int rank, int size) {
  std::vector<GpuCase> cases;
  for (int parity = 0; parity < 2; ++parity) {
    std::vector<int> ranks;
    for (int member = parity; member < size; member += 2) ranks.push_back(member);
    const int set = engine.add_process_set(ranks, soon()).value();
    if (rank % 2 != parity) continue;
    for (const Operation& operation : gpu_operations()) {
      const auto root = root_of(operation);
      if (root && *root >= static_cast<int>(ranks.size())) continue;
      cases.push_back({.operation = operation,
                       .rows = 33,
                       .values = GpuValues::kFew,
                       .process_set = set,
                       .ranks = ranks});
    }
  }
  return cases;
}

TEST_P(NcclOperations, WorkInProcessSetsAtOnce) {
  NcclRanks world(GetParam());
  world.run([&](int rank, Engine& engine) {
    for (const GpuCase& test : cases_of_halves(engine, rank, world.size())) {
      const int size = static_cast<int>(test.ranks.size());
      expect_equal_on_both(engine, test, rank / 2, size, GpuWorld::gpu(rank));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, NcclOperations,
                         testing::Values(std::vector<int>{2}, std::vector<int>{3},
                                         std::vector<int>{2, 2}));

}  // namespace
}  // namespace hvd
