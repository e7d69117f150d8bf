// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the NCCL double exports beside NCCL's functions, for tests that load it. Each also has an
// environment variable for other processes, read at the first call of NCCL:
//   HVD_DOUBLE_NCCL_FAIL=NAME:NTH:CODE[:RANK]      double_nccl_fail
//   HVD_DOUBLE_NCCL_BLOCK=NAME:NTH:MS[:RANK]       double_nccl_block
//   HVD_DOUBLE_NCCL_HANG=RANK:NTH                  double_nccl_hang
//   HVD_DOUBLE_NCCL_ASYNC_ERROR=RANK:NTH:CODE      double_nccl_async_error
//   HVD_DOUBLE_NCCL_DELAY=SEED:MOST_US             double_nccl_delay
//   HVD_DOUBLE_NCCL_VERSION=CODE                   double_nccl_set_version
//   HVD_DOUBLE_NCCL_SILENT_DEATHS=1                double_nccl_silent_deaths
//   HVD_DOUBLE_NCCL_DEATH_CODE=CODE                double_nccl_death_code
//   HVD_DOUBLE_NCCL_ONE_AT_A_TIME=1                double_nccl_one_at_a_time
//   HVD_DOUBLE_NCCL_PROGRESS_POLLS=N               double_nccl_progress_polls
//   HVD_DOUBLE_TELL_LATE=1                         standard error says what is called too late
//   HVD_DOUBLE_NCCL_RAS=1                          double_nccl_ras at NCCL_RAS_ADDR
// Ranks are those of the communicator. All are thread-safe.
extern "C" {

/// Forgets all orders, counts and complaints.
void double_nccl_reset();
/// Calls of a function since the reset.
int double_nccl_calls(const char* function);
/// Operations that ranks put into streams since the reset, and graph replays of them. -1: of all.
int double_nccl_operations(int rank);
/// Communicators, registrations, windows and allocations that are still there.
int double_nccl_alive();
/// Complaints since the reset; the text of the last one, or "", valid until the thread's next call.
int double_nccl_complaints();
const char* double_nccl_last_complaint();

/// The nth call (from 1) of `function` from now by `rank` (-1: any) returns `code`. With " later"
/// behind the name (ncclCommWindowRegister alone) it is what the call goes on with that fails.
void double_nccl_fail(const char* function, int nth, int code, int rank);
/// The nth call of `function` from now by `rank` (-1: any) begins after so many milliseconds, or,
/// with 0, at double_nccl_release(), which the reset implies.
void double_nccl_block(const char* function, int nth, int milliseconds, int rank);
void double_nccl_release();
/// The nth operation (from 1) from now of `rank` never begins, until it is aborted.
void double_nccl_hang(int rank, int nth);
/// The nth operation from now of `rank` never ends, and the communicator has an error.
void double_nccl_async_error(int rank, int nth, int code);
/// Operations begin after up to `most_us`, chosen by a generator begun with `seed`.
void double_nccl_delay(unsigned seed, unsigned most_us);
void double_nccl_set_version(int version);
/// The others are not told when a rank dies: they wait, as kernels over NVLink do.
void double_nccl_silent_deaths(int silent);
/// What the others are told when a rank dies; ncclRemoteError at first.
void double_nccl_death_code(int code);
/// A GPU has room for one operation at a time, as where the kernels do not fit side by side.
void double_nccl_one_at_a_time(int one);
void double_nccl_progress_polls(int polls);
/// Answers as NCCL's RAS at `address` (host:port; port 0: any). The port, or -1.
int double_nccl_ras(const char* address);
}
