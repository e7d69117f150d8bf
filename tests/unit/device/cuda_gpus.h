// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/gpu.h"
#include "doubles/cuda/double_cuda.h"

namespace hvd {

/// The GPUs of the driver's double, which begins each test anew.
class CudaGpus : public testing::Test {
 protected:
  void SetUp() override {
    double_reset();
    gpus_ = find_gpus(GpuDriverSettings::from(Environment::of_process()));
    auto first = gpus_->open({DeviceKind::kCuda, 0});
    ASSERT_TRUE(first.is_ok()) << first.status().message();
    gpu_ = first.value();
    auto second = gpus_->open({DeviceKind::kCuda, 1});
    ASSERT_TRUE(second.is_ok()) << second.status().message();
    other_gpu_ = second.value();
  }

  void TearDown() override {
    double_release();
    for (const auto& [gpu, stream] : streams_) {
      (void)finish(*gpu, stream);
      gpu->destroy_stream(stream);
    }
    streams_.clear();
    gpus_.reset();
    double_reset();
  }

  StreamHandle stream(Gpu& gpu) {
    auto made = gpu.create_stream();
    EXPECT_TRUE(made.is_ok()) << made.status().message();
    streams_.emplace_back(&gpu, made.value());
    return made.value();
  }
  StreamHandle stream() { return stream(*gpu_); }

  template <typename T>
  T* allocate(std::size_t count, Gpu& gpu) {
    auto memory = gpu.allocate(count * sizeof(T));
    EXPECT_TRUE(memory.is_ok()) << memory.status().message();
    return static_cast<T*>(memory.value());
  }
  template <typename T>
  T* allocate(std::size_t count) {
    return allocate<T>(count, *gpu_);
  }

  /// Waits until the stream has done what is in it.
  static Status finish(Gpu& gpu, StreamHandle stream) {
    HVD_TRY_ASSIGN(const GpuEventPtr event, gpu.record(stream));
    return gpu.wait(*event);
  }

  std::unique_ptr<Gpus> gpus_;
  Gpu* gpu_ = nullptr;
  Gpu* other_gpu_ = nullptr;

 private:
  std::vector<std::pair<Gpu*, StreamHandle>> streams_;
};

}  // namespace hvd
