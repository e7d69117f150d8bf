// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Runs all threads of a kernel on the calling thread. `arguments` as cuLaunchKernel has them.
using HvdKernelDouble = void (*)(unsigned blocks, unsigned threads, void** arguments);

extern "C" {
/// The kernel of device/kernels by that name; null: there is none.
HvdKernelDouble hvd_kernel_double(const char* name);
}
