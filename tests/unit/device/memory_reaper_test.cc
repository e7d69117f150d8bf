// SPDX-License-Identifier: Apache-2.0
#include "device/memory_reaper.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "base/deadline.h"
#include "cuda_gpus.h"

namespace hvd {
namespace {

using MemoryReaperTest = CudaGpus;

TEST_F(MemoryReaperTest, FreesAllBeforeItEnds) {
  const auto before = double_allocated(0);
  const auto pinned = double_allocated(-1);
  {
    MemoryReaper reaper;
    reaper.free(*gpu_, gpu_->allocate(100).value());
    reaper.free_pinned(*gpu_, gpu_->allocate_pinned(100).value());
  }
  EXPECT_EQ(double_allocated(0), before);
  EXPECT_EQ(double_allocated(-1), pinned);
}

TEST_F(MemoryReaperTest, EndsWhileAStreamOfTheGpuHangs) {
  const StreamHandle other = stream();
  double_hang(static_cast<CUstream>(other));
  ASSERT_TRUE(gpu_->record(other).is_ok());
  const auto before = double_calls("cuMemFreeHost");
  {
    MemoryReaper reaper;
    reaper.free_pinned(*gpu_, gpu_->allocate_pinned(100).value());
  }
  EXPECT_EQ(double_calls("cuMemFreeHost"), before + 1) << "the driver waits for the stream";
  double_release();
  // The thread that was left behind comes back from the driver: GPUs live as long as the process.
  static auto* const left_behind = new std::unique_ptr<Gpus>(std::move(gpus_));
  EXPECT_NE(*left_behind, nullptr);
}

TEST_F(MemoryReaperTest, FreesBehindTheStreamsThatUseTheMemory) {
  double_free_waits(0);
  const StreamHandle reader = stream();
  double_hang(static_cast<CUstream>(reader));
  const auto before = double_allocated(0);
  void* const memory = gpu_->allocate(100).value();
  {
    MemoryReaper reaper;
    const auto waits = double_calls("wait");
    reaper.free(*gpu_, memory, {gpu_->record(reader).value()});
    const Deadline deadline = Deadline::after(std::chrono::seconds(60));
    while (double_calls("wait") == waits && !deadline.has_passed()) std::this_thread::yield();
    EXPECT_GT(double_calls("wait"), waits) << "nobody waits for the stream";
    EXPECT_EQ(double_allocated(0), before + 100);
    double_release();
  }
  EXPECT_EQ(double_allocated(0), before);
}

}  // namespace
}  // namespace hvd
