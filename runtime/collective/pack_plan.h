// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/rounding.h"
#include "collective/data_type.h"
#include "collective/operation.h"
#include "device/kernels/kernel_arguments.h"
#include "device/kernels/kernel_launch.h"

namespace hvd {

using PackLaunch = KernelLaunch<kernels::PackArguments>;

/// A tensor and its place in a bucket.
struct PackSegment {
  void* tensor = nullptr;
  std::size_t offset = 0;  ///< In bytes from the begin of the bucket.
  std::size_t count = 0;   ///< Elements.
};

/// Where tensors of a bucket begin: there every vector access of a kernel is aligned.
inline constexpr std::size_t kSlotBytes = 256;
/// The first slot at or after `offset`.
constexpr std::size_t next_slot(std::size_t offset) { return round_up(offset, kSlotBytes); }

/// Between tensors of one type and a bucket. Where the types are the same and the scale is 1, bits
/// are copied, of any type. Else the types may be:
///   the same float or complex type; or one of float32 and float64, the other of float16 and
///   bfloat16, or each of these and of the 8-bit floats with itself.
/// The factor is applied in float64 where either type is float64, else in float32, and rounding to
/// fewer bits is to the nearest even, as on the host.
struct PackFormat {
  DataType tensor = DataType::kFloat32;
  DataType bucket = DataType::kFloat32;
  double scale = 1.0;
};
/// True where plan_pack() and plan_unpack() know what to do.
bool can_pack(const PackFormat& format);

/// The launches that move every segment into the bucket, or out of it: one for some 200 tensors.
/// Only where can_pack(). Any alignment is right; segments in slots and tensors that begin at a
/// multiple of 16 bytes are fast.
std::vector<PackLaunch> plan_pack(std::span<const PackSegment> segments, void* bucket,
                                  const PackFormat& format);
std::vector<PackLaunch> plan_unpack(std::span<const PackSegment> segments, void* bucket,
                                    const PackFormat& format);

/// Multiplies tensors of floats or complex numbers in place. Offsets are not looked at.
std::vector<PackLaunch> plan_scale(std::span<const PackSegment> segments, DataType dtype,
                                   double scale);

/// What Reduction does to integers after the fold, in place: an exact division where the scale is
/// 1, else scaled in float64, truncated toward zero and clamped to the type. The same launch with a
/// divisor of 1 is the prescale. Integers only.
std::vector<KernelLaunch<kernels::IntegerScaleArguments>> plan_integer_scale(
    std::span<const PackSegment> segments, DataType dtype, double scale, int divisor);

/// fill_identity() for tensors on the device.
std::vector<KernelLaunch<kernels::FillArguments>> plan_fill_identity(
    std::span<const PackSegment> segments, DataType dtype, ReduceOp op);

}  // namespace hvd
