// SPDX-License-Identifier: Apache-2.0
// A kernel that does not end is reported, with what NCCL's RAS says.
#include <cstdlib>

#include "world/captured_errors.h"
#include "world/nccl_world.h"

namespace hvd {
namespace {

class NcclStall : public NcclWorld {};

TEST_F(NcclStall, IsReportedWithTheRanksThatRasMisses) {
  const int port = double_nccl_ras("127.0.0.1:0");
  ASSERT_GT(port, 0);
  ASSERT_EQ(::setenv("NCCL_RAS_ADDR", ("localhost:" + std::to_string(port)).c_str(), 1), 0);
  EngineOptions options = World::quick_options();
  options.stall_warning = std::chrono::milliseconds(100);
  CapturedErrors errors;
  NcclRanks world({1, 1}, options);
  world.run([&](int rank, Engine& engine) {
    if (rank == 1) double_nccl_hang(1, 1);
    auto tensors = gpu_tensors(rank, {5, 100'000});
    const auto handle = engine.submit(gpu_request("stuck", rank, tensors));
    ASSERT_TRUE(handle.is_ok()) << handle.status().message();
    EXPECT_TRUE(errors.wait_for("NCCL's RAS says:")) << errors.text();
    EXPECT_TRUE(errors.wait_for("allreduce(sum) of 2 float32 tensors) is on the GPU"));
    engine.abort("the test is over");
    EXPECT_FALSE(engine.wait(handle.value(), soon()).is_ok());
  });
  ::unsetenv("NCCL_RAS_ADDR");
}

TEST_F(NcclStall, WhileABucketIsRegisteredNamesTheRankThatIsMissed) {
  EngineOptions options = World::quick_options();
  options.stall_warning = std::chrono::milliseconds(100);
  const CapturedErrors errors;
  NcclRanks world({2}, options);
  double_nccl_block("ncclCommWindowRegister", 1, 0, 1);
  world.run([&](int rank, Engine& engine) {
    auto tensors = gpu_tensors(rank, {5, 100'000});
    const auto handle = engine.submit(gpu_request("late", rank, tensors));
    ASSERT_TRUE(handle.is_ok()) << handle.status().message();
    if (rank == 0) {
      EXPECT_TRUE(errors.wait_for("waits for all ranks to tell NCCL of its bucket"))
          << errors.text();
      EXPECT_TRUE(errors.wait_for("these ranks of this node have not begun it: 1"));
      double_nccl_release();
    }
    EXPECT_TRUE(engine.wait(handle.value(), soon()).is_ok());
    engine.release(handle.value());
  });
}

}  // namespace
}  // namespace hvd
