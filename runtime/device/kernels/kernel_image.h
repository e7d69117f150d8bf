// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace hvd {

/// The kernels as the driver loads them, for GPUs of an architecture: 90 for sm_90. Code where this
/// build has code of the same major number (9) that is not newer; else text, which the driver
/// compiles, if that is not newer. Empty: the build has neither.
std::span<const std::byte> kernel_image(int architecture);

/// The architectures that this build has code for, ascending.
std::vector<int> kernel_architectures();

}  // namespace hvd
