// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace double_nccl {

/// What becomes of the next operation of a rank.
struct Fate {
  bool hangs = false;
  ncclResult_t async_error = ncclSuccess;
  std::uint32_t delay_us = 0;
  int block_ms = 0;  ///< Of a call that blocks; 0: until it is released.
};

/// Counts a call of the API and gives the failure that is ordered for it. `rank`: of the
/// communicator; -1: there is none yet. Thread-safe, as all here.
std::optional<ncclResult_t> enter(const char* function, int rank);
/// The next operation that `rank` puts into a stream.
Fate next_fate(int rank);
int version();
bool are_deaths_silent();
bool is_one_at_a_time();
/// What the other ranks are told when one dies.
ncclResult_t death_code();
/// How often ncclCommGetAsyncError says ncclInProgress after every non-blocking call, at least.
int progress_polls();

/// What a caller did that NCCL leaves undefined or that would hang; also the last error's text.
void complain(const std::string& text);
void set_last_error(const std::string& text);
const char* last_error();

}  // namespace double_nccl
