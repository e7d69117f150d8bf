// SPDX-License-Identifier: Apache-2.0
#include "device/memory_reaper.h"

#include <gtest/gtest.h>

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
}

}  // namespace
}  // namespace hvd
