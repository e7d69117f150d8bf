// SPDX-License-Identifier: Apache-2.0
// All kernels. The same text is compiled for GPUs and, for tests, for the host: no shared memory,
// no barrier, no exchange between threads.
#include "device/kernels/adasum.cuh"
#include "device/kernels/fill.cuh"
#include "device/kernels/float8.cuh"
#include "device/kernels/integer_scale.cuh"
#include "device/kernels/transfer.cuh"

namespace hvd::kernels {

HVD_KERNEL(hvd_copy, PackArguments) { transfer<Raw, Raw>(arguments); }

HVD_KERNEL(hvd_float32_to_float32, PackArguments) { transfer<Float32, Float32>(arguments); }
HVD_KERNEL(hvd_float64_to_float64, PackArguments) { transfer<Float64, Float64>(arguments); }
HVD_KERNEL(hvd_float16_to_float16, PackArguments) { transfer<Float16, Float16>(arguments); }
HVD_KERNEL(hvd_bfloat16_to_bfloat16, PackArguments) { transfer<Bfloat16, Bfloat16>(arguments); }

HVD_KERNEL(hvd_float8_e4m3fn_to_float8_e4m3fn, PackArguments) {
  transfer<Float8E4m3, Float8E4m3>(arguments);
}
HVD_KERNEL(hvd_float8_e5m2_to_float8_e5m2, PackArguments) {
  transfer<Float8E5m2, Float8E5m2>(arguments);
}

HVD_KERNEL(hvd_float32_to_float16, PackArguments) { transfer<Float32, Float16>(arguments); }
HVD_KERNEL(hvd_float32_to_bfloat16, PackArguments) { transfer<Float32, Bfloat16>(arguments); }
HVD_KERNEL(hvd_float64_to_float16, PackArguments) { transfer<Float64, Float16>(arguments); }
HVD_KERNEL(hvd_float64_to_bfloat16, PackArguments) { transfer<Float64, Bfloat16>(arguments); }

HVD_KERNEL(hvd_float16_to_float32, PackArguments) { transfer<Float16, Float32>(arguments); }
HVD_KERNEL(hvd_bfloat16_to_float32, PackArguments) { transfer<Bfloat16, Float32>(arguments); }
HVD_KERNEL(hvd_float16_to_float64, PackArguments) { transfer<Float16, Float64>(arguments); }
HVD_KERNEL(hvd_bfloat16_to_float64, PackArguments) { transfer<Bfloat16, Float64>(arguments); }

HVD_KERNEL(hvd_scale_uint8, IntegerScaleArguments) { scale_integers<std::uint8_t>(arguments); }
HVD_KERNEL(hvd_scale_int8, IntegerScaleArguments) { scale_integers<std::int8_t>(arguments); }
HVD_KERNEL(hvd_scale_uint16, IntegerScaleArguments) { scale_integers<std::uint16_t>(arguments); }
HVD_KERNEL(hvd_scale_int16, IntegerScaleArguments) { scale_integers<std::int16_t>(arguments); }
HVD_KERNEL(hvd_scale_uint32, IntegerScaleArguments) { scale_integers<std::uint32_t>(arguments); }
HVD_KERNEL(hvd_scale_int32, IntegerScaleArguments) { scale_integers<std::int32_t>(arguments); }
HVD_KERNEL(hvd_scale_uint64, IntegerScaleArguments) { scale_integers<std::uint64_t>(arguments); }
HVD_KERNEL(hvd_scale_int64, IntegerScaleArguments) { scale_integers<std::int64_t>(arguments); }

HVD_KERNEL(hvd_fill, FillArguments) { fill(arguments); }

HVD_KERNEL(hvd_dot_float16, DotArguments) { dot<Float16>(arguments); }
HVD_KERNEL(hvd_dot_bfloat16, DotArguments) { dot<Bfloat16>(arguments); }
HVD_KERNEL(hvd_dot_float32, DotArguments) { dot<Float32>(arguments); }
HVD_KERNEL(hvd_dot_float64, DotArguments) { dot<Float64>(arguments); }
HVD_KERNEL(hvd_sum_dots, SumDotsArguments) { sum_dots(arguments); }
HVD_KERNEL(hvd_weigh, WeighArguments) { weigh(arguments); }
HVD_KERNEL(hvd_combine_float16, CombineArguments) { combine<Float16>(arguments); }
HVD_KERNEL(hvd_combine_bfloat16, CombineArguments) { combine<Bfloat16>(arguments); }
HVD_KERNEL(hvd_combine_float32, CombineArguments) { combine<Float32>(arguments); }
HVD_KERNEL(hvd_combine_float64, CombineArguments) { combine<Float64>(arguments); }

}  // namespace hvd::kernels
