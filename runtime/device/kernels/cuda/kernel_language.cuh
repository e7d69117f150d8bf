// SPDX-License-Identifier: Apache-2.0
// What the kernels need of CUDA C++. The folder of the vendor comes by the include path.
#pragma once

#include <cstdint>

#define HVD_DEVICE __device__ __forceinline__
#define HVD_UNROLL _Pragma("unroll")
#define HVD_NO_UNROLL _Pragma("unroll 1")
#define HVD_MAY_ALIAS
#define HVD_KERNEL(name, Arguments) \
  extern "C" __global__ void __launch_bounds__(kThreads) name(const Arguments arguments)

namespace hvd::kernels {

// One instruction each. A NaN becomes the NaN 0x7fff: the hardware keeps no payload.
HVD_DEVICE std::uint16_t float_to_float16(float value) {
  std::uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

HVD_DEVICE float float16_to_float(std::uint16_t bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

// By integers, as on the host: GPUs before sm_80 have no instruction for it, and memory is slower.
HVD_DEVICE std::uint16_t float_to_bfloat16(float value) {
  const std::uint32_t bits = __float_as_uint(value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const std::uint32_t nan = (bits >> 16) | 0x40U;
  return static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? nan : rounded);
}

HVD_DEVICE float bfloat16_to_float(std::uint16_t bits) {
  return __uint_as_float(static_cast<std::uint32_t>(bits) << 16);
}

}  // namespace hvd::kernels
