// SPDX-License-Identifier: Apache-2.0
// What the kernels need of HIP. The folder of the vendor comes by the include path.
#pragma once

#include <hip/hip_runtime.h>

#include <cstdint>

#define HVD_DEVICE __device__ __forceinline__
#define HVD_UNROLL _Pragma("unroll")
#define HVD_NO_UNROLL _Pragma("unroll 1")
#define HVD_MAY_ALIAS [[gnu::may_alias]]
#define HVD_KERNEL(name, Arguments) \
  extern "C" __global__ void __launch_bounds__(kThreads) name(const Arguments arguments)

namespace hvd::kernels {

HVD_DEVICE std::uint16_t float_to_float16(float value) {
  return __builtin_bit_cast(std::uint16_t, static_cast<_Float16>(value));
}

HVD_DEVICE float float16_to_float(std::uint16_t bits) {
  return static_cast<float>(__builtin_bit_cast(_Float16, bits));
}

// By integers, as on the host: few GPUs have an instruction for it, and memory is slower.
HVD_DEVICE std::uint16_t float_to_bfloat16(float value) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const std::uint32_t nan = (bits >> 16) | 0x40U;
  return static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? nan : rounded);
}

HVD_DEVICE float bfloat16_to_float(std::uint16_t bits) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
}

}  // namespace hvd::kernels
