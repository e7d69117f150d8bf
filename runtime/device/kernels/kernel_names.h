// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace hvd {

/// All of kernels.cu.
inline constexpr std::string_view kKernelNames[] = {
    "hvd_copy",
    "hvd_float32_to_float32",
    "hvd_float64_to_float64",
    "hvd_float16_to_float16",
    "hvd_bfloat16_to_bfloat16",
    "hvd_float8_e4m3fn_to_float8_e4m3fn",
    "hvd_float8_e5m2_to_float8_e5m2",
    "hvd_float32_to_float16",
    "hvd_float32_to_bfloat16",
    "hvd_float64_to_float16",
    "hvd_float64_to_bfloat16",
    "hvd_float16_to_float32",
    "hvd_bfloat16_to_float32",
    "hvd_float16_to_float64",
    "hvd_bfloat16_to_float64",
    "hvd_scale_uint8",
    "hvd_scale_int8",
    "hvd_scale_uint16",
    "hvd_scale_int16",
    "hvd_scale_uint32",
    "hvd_scale_int32",
    "hvd_scale_uint64",
    "hvd_scale_int64",
    "hvd_fill",
    "hvd_dot_float16",
    "hvd_dot_bfloat16",
    "hvd_dot_float32",
    "hvd_dot_float64",
    "hvd_sum_dots",
    "hvd_weigh",
    "hvd_combine_float16",
    "hvd_combine_bfloat16",
    "hvd_combine_float32",
    "hvd_combine_float64",
};

}  // namespace hvd
