// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace double_cuda {

enum class Memory { kDevice, kPinned };

struct Allocation {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
  Memory kind = Memory::kDevice;
  int device = 0;
};

/// Memory of GPUs and pinned memory: host memory from a range of addresses that nothing else uses.
/// No address is given twice, and what was freed cannot be touched any more: a pointer that
/// outlives its memory is found.
void* allocate(std::size_t bytes, Memory kind, int device);
/// False: no such allocation.
bool deallocate(std::uintptr_t begin, Memory kind);
/// Whether giving memory of a GPU back waits for it.
std::atomic<bool>& free_waits();
/// The allocation that holds the address.
std::optional<Allocation> allocation_of(std::uintptr_t address);
/// How a copy may use the bytes from `address` on.
enum class Range {
  kOutside,  ///< Not of ours: ordinary memory of the host.
  kInside,   ///< In one allocation.
  kInvalid,  ///< In no allocation (freed, or never given), or beyond the end of one.
};
Range range_of(std::uintptr_t address, std::size_t bytes);

}  // namespace double_cuda
