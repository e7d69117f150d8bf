// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace hvd {

/// What a rank tells the others of the communicator that it gives: all in ranks of MPI_COMM_WORLD.
struct MpiMembership {
  int rank = 0;  ///< Of this process.
  int size = 0;
  std::vector<int> members;  ///< Empty: it gives MPI_COMM_NULL.
};

std::string encode(const MpiMembership& membership);
Result<MpiMembership> decode_membership(std::string_view bytes);

/// Asks MPI who is in the communicator whose handle of `handle_bytes` bytes lies at `handle`.
/// Local; counts as a call of MPI by this thread. kInvalidArgument: no such handle; kUnsupported:
/// there is no MPI to ask.
Result<MpiMembership> members_of(const void* handle, std::size_t handle_bytes);

/// The process sets that the ranks' communicators make: ranks of the job, ascending, the set of the
/// lowest rank first. Pure. Every member of a communicator must have given it.
Result<std::vector<std::vector<int>>> sets_of_members(const std::vector<MpiMembership>& by_rank);

}  // namespace hvd
