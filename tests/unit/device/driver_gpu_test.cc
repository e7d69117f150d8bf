// SPDX-License-Identifier: Apache-2.0
#include "device/driver_gpu.h"

#include <gmock/gmock.h>

#include <array>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "cuda_gpus.h"

namespace hvd {
namespace {

using testing::HasSubstr;
using DriverGpuTest = CudaGpus;

std::vector<int> numbers(std::size_t count) {
  std::vector<int> made(count);
  std::iota(made.begin(), made.end(), 1);
  return made;
}

TEST_F(DriverGpuTest, KnowsWhatTellsItFromOthers) {
  EXPECT_EQ(gpu_->facts().name, "Double of a GPU");
  EXPECT_EQ(gpu_->facts().bus_id, "0000:1a:00.0");
  EXPECT_EQ(other_gpu_->facts().bus_id, "0000:1b:00.0");
  EXPECT_NE(gpu_->facts().uuid, other_gpu_->facts().uuid);
  EXPECT_EQ(gpu_->facts().architecture, 80);
  EXPECT_EQ(gpu_->facts().multiprocessors, 4);
  EXPECT_EQ(gpu_->device(), (Device{DeviceKind::kCuda, 0}));
}

TEST_F(DriverGpuTest, CopiesFromTheHostAndBack) {
  const StreamHandle queue = stream();
  const std::vector<int> sent = numbers(1000);
  std::vector<int> got(sent.size());
  int* const memory = allocate<int>(sent.size());
  const std::size_t bytes = sent.size() * sizeof(int);
  ASSERT_TRUE(gpu_->copy(memory, sent.data(), bytes, queue).is_ok());
  ASSERT_TRUE(gpu_->copy(got.data(), memory, bytes, queue).is_ok());
  ASSERT_TRUE(finish(*gpu_, queue).is_ok());
  EXPECT_EQ(got, sent);
  gpu_->deallocate(memory);
}

TEST_F(DriverGpuTest, MakesAStreamWaitForAnother) {
  const StreamHandle first = stream();
  const StreamHandle second = stream();
  auto* const memory = allocate<unsigned char>(8);
  double_hang(static_cast<CUstream>(first));
  ASSERT_TRUE(gpu_->set_bytes(memory, 1, 8, first).is_ok());
  auto event = gpu_->record(first);
  ASSERT_TRUE(event.is_ok());
  ASSERT_TRUE(gpu_->make_wait(second, *event.value()).is_ok());
  ASSERT_TRUE(gpu_->set_bytes(memory, 2, 8, second).is_ok());
  auto end = gpu_->record(second);
  ASSERT_TRUE(end.is_ok());
  EXPECT_FALSE(gpu_->has_happened(*end.value()).value());
  double_release();
  ASSERT_TRUE(gpu_->wait(*end.value()).is_ok());
  EXPECT_TRUE(gpu_->has_happened(*event.value()).value());
  EXPECT_EQ(memory[7], 2);
  gpu_->deallocate(memory);
}

}  // namespace
}  // namespace hvd
