// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

/// What tests tell the double of the driver. The variables say the same to processes, when the
/// double is loaded:
///
///   HVD_DOUBLE_GPUS=2            how many GPUs this machine has (CUDA_VISIBLE_DEVICES is obeyed)
///   HVD_DOUBLE_ARCHITECTURE=80   their architecture
///   HVD_DOUBLE_PEERS=1           0: no GPU reaches the memory of another
///   HVD_DOUBLE_FAIL=NAME:N:CODE,...  double_fail(); the code `hang`: double_hang_at()
///   HVD_DOUBLE_DELAY=SEED:MICROSECONDS  double_delay()
///   HVD_DOUBLE_CALLS=FILE        at the end of the process, "NAME CALLS" of each function that was
///                                called; {pid} in the name is replaced
///   HVD_DOUBLE_TELL_LATE=1       standard error says what is called after the driver's end, which
///                                is at the exit of the program; it fails in any case
///
/// Functions are named as in the library (cuMemAlloc_v2) or in cuda.h (cuMemAlloc).
extern "C" {

/// The n-th call from now on fails with `code` (1: the next); once. 0: all fail until
/// double_reset().
void double_fail(const char* function, std::uint64_t n, CUresult code);
/// What the n-th call from now on puts into its stream never ends, until double_release().
void double_hang_at(const char* function, std::uint64_t n);
/// The stream begins nothing new until double_release(); null: the default stream of GPU 0.
void double_hang(CUstream stream);
/// All that hangs goes on.
void double_release();
/// Before each piece of work a stream sleeps for up to so many microseconds, at random.
void double_delay(std::uint64_t seed, std::uint64_t microseconds);
/// A fault of the GPU: every call that needs it gives `code` from now on, until double_reset().
void double_spoil(int device, CUresult code);

/// 0: cuMemFree() does not wait for the device, as drivers need not; until double_reset().
void double_free_waits(int waits);

/// As HVD_DOUBLE_PEERS, until double_reset().
void double_peers(int reach);

/// Calls since double_reset(). "wait": times that a call waited for the device.
std::uint64_t double_calls(const char* function);
/// Bytes of device memory that are allocated; -1: pinned host memory.
std::size_t double_allocated(int device);
/// Events, streams and graphs that were made and not destroyed.
std::size_t double_events();
std::size_t double_streams();
std::size_t double_graphs();
/// Ends faults, delays and hangs, heals GPUs, sets the counts of calls to 0. Memory, streams and
/// events stay.
void double_reset();
}
