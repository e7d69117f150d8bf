// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "device/gpu.h"
#include "world/world.h"

namespace hvd {

/// Of the process: those of the driver's double. Never destroyed: the double may end first.
inline Gpus& gpus() {
  static Gpus* const found = find_gpus(Environment::of_process()).release();
  return *found;
}

inline EngineOptions gpu_options() {
  EngineOptions options = World::quick_options();
  options.gpus = &gpus();
  return options;
}

/// Floats in the memory of the GPU of a rank.
class GpuFloats {
 public:
  GpuFloats(int rank, std::size_t count) : count_(count) {
    auto gpu = gpus().open({DeviceKind::kCuda, rank});
    EXPECT_TRUE(gpu.is_ok()) << gpu.status().message();
    gpu_ = gpu.value();
    data_ = static_cast<float*>(gpu_->allocate(count * sizeof(float)).value());
  }
  GpuFloats(const GpuFloats&) = delete;
  GpuFloats& operator=(const GpuFloats&) = delete;
  ~GpuFloats() { gpu_->deallocate(data_); }

  Device device() const { return gpu_->device(); }
  float* begin() { return data_; }
  float* end() { return data_ + count_; }
  float& operator[](std::size_t i) { return data_[i]; }
  std::size_t size() const { return count_; }

 private:
  Gpu* gpu_ = nullptr;
  float* data_ = nullptr;
  std::size_t count_;
};

inline Request request_of(std::string name, const Operation& operation,
                          std::vector<std::unique_ptr<GpuFloats>>& tensors) {
  Request request;
  request.name = std::move(name);
  request.operation = operation;
  request.device = tensors.front()->device();
  for (const auto& tensor : tensors) {
    request.tensors.push_back({tensor->begin(),
                               tensor->begin(),
                               DataType::kFloat32,
                               {static_cast<std::int64_t>(tensor->size())},
                               0});
  }
  return request;
}

inline std::vector<std::unique_ptr<GpuFloats>> tensors_of(int rank,
                                                          const std::vector<std::size_t>& sizes) {
  std::vector<std::unique_ptr<GpuFloats>> tensors;
  for (const std::size_t size : sizes) {
    auto& tensor = *tensors.emplace_back(std::make_unique<GpuFloats>(rank, size));
    std::iota(tensor.begin(), tensor.end(), static_cast<float>(rank));
  }
  return tensors;
}

}  // namespace hvd
