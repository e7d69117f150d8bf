// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "device/gpu.h"

namespace hvd {

/// The GPU that the tests of the kernels run on: a real one, or the double's.
Gpu& kernel_gpu();

/// The next of a row of numbers without an end, the same in every run.
inline std::uint64_t next_random(std::uint64_t& state) {
  state = state * 6364136223846793005U + 1442695040888963407U;
  return state ^ (state >> 29);
}

/// Memory of a GPU, and beside it what it should hold. What a kernel writes beside its tensors
/// shows as well.
class KernelArena {
 public:
  explicit KernelArena(std::size_t bytes) : expected_(bytes) {
    std::uint64_t state = bytes;
    for (std::byte& one : expected_) one = static_cast<std::byte>(next_random(state) >> 20);
    auto memory = kernel_gpu().allocate(bytes);
    memory_ = memory.is_ok() ? static_cast<std::byte*>(memory.value()) : nullptr;
    EXPECT_NE(memory_, nullptr);
    upload();
  }
  KernelArena(const KernelArena&) = delete;
  KernelArena& operator=(const KernelArena&) = delete;
  ~KernelArena() { kernel_gpu().deallocate(memory_); }

  /// Of the GPU, and of what it should hold.
  std::byte* at(std::size_t offset = 0) const { return memory_ + offset; }
  std::byte* expected(std::size_t offset = 0) { return expected_.data() + offset; }

  /// Makes the GPU's memory what it should be.
  void upload() { copy(memory_, expected_.data()); }
  std::vector<std::byte> contents() const {
    std::vector<std::byte> bytes(expected_.size());
    copy(bytes.data(), memory_);
    return bytes;
  }

 private:
  /// In order after the kernels, and done when it returns.
  void copy(void* to, const void* from) const {
    Gpu& gpu = kernel_gpu();
    EXPECT_TRUE(gpu.copy(to, from, expected_.size(), nullptr).is_ok());
    auto done = gpu.record(nullptr);
    ASSERT_TRUE(done.is_ok());
    EXPECT_TRUE(gpu.wait(*done.value()).is_ok());
  }

  std::vector<std::byte> expected_;
  std::byte* memory_ = nullptr;
};

}  // namespace hvd
