// SPDX-License-Identifier: Apache-2.0
// Kernels as host C++: in place of the vendor's file of this name. A kernel is a function that
// runs all threads, one after the other, and is found by name (host_kernel.h).
#pragma once

#include <cstdint>

#include "collective/half_bits.h"
#include "host_kernel.h"

#define HVD_DEVICE inline
#define HVD_UNROLL
#define HVD_NO_UNROLL
#define HVD_MAY_ALIAS [[gnu::may_alias]]
#define HVD_KERNEL(name, Arguments)                                                               \
  static void name(const Arguments& arguments);                                                   \
  static const ListedKernel name##_listed(                                                        \
      {#name, sizeof(Arguments), +[](unsigned blocks, unsigned threads, void** arguments) {       \
         run_threads(blocks, threads, [&] { name(*static_cast<const Arguments*>(*arguments)); }); \
       }});                                                                                       \
  static void name(const Arguments& arguments)

namespace hvd::kernels {

struct Index {
  std::uint32_t x = 0;
};
inline thread_local Index threadIdx;  // NOLINT(readability-identifier-naming)
inline thread_local Index blockIdx;   // NOLINT(readability-identifier-naming)

template <typename Thread>
void run_threads(unsigned blocks, unsigned threads, const Thread& thread) {
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
    for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) thread();
  }
}

/// Puts a kernel into the table as the program starts.
struct ListedKernel {
  explicit ListedKernel(const doubles::HostKernel& kernel);
};

}  // namespace hvd::kernels
