// SPDX-License-Identifier: Apache-2.0
#include "backends/mpi/mpi_members.h"

#include <algorithm>
#include <memory>
#include <span>

#include "backends/mpi/mpi_library.h"
#include "base/bytes.h"

namespace hvd {
namespace {

constexpr int kNoRank = -1;

std::string communicator_of(const std::vector<int>& ranks) {
  if (ranks.empty()) return "MPI_COMM_NULL";
  std::string text;
  for (const int rank : ranks) text += format_text("{}{}", text.empty() ? "" : ", ", rank);
  return format_text("the communicator of ranks [{}]", text);
}

/// By rank of MPI_COMM_WORLD: the rank of the job.
Result<std::vector<int>> job_ranks(const std::vector<MpiMembership>& by_rank) {
  std::vector<int> ranks;
  for (std::size_t i = 0; i < by_rank.size(); ++i) {
    const MpiMembership& mine = by_rank[i];
    const auto place = static_cast<std::size_t>(mine.rank);
    if (place >= ranks.size()) ranks.resize(place + 1, kNoRank);
    if (ranks[place] != kNoRank) {
      return error(Code::kInvalidArgument,
                   "ranks {} and {} of the job are both rank {} of an MPI_COMM_WORLD of {}: the "
                   "program's MPI is not the launcher's; start it with that MPI's own mpirun",
                   ranks[place], i, mine.rank, mine.size);
    }
    ranks[place] = static_cast<int>(i);
  }
  return ranks;
}

Result<std::vector<int>> translate(const std::vector<int>& members,
                                   const std::vector<int>& job_ranks, std::size_t rank) {
  std::vector<int> ranks;
  for (const int member : members) {
    const auto place = static_cast<std::size_t>(member);
    if (member < 0 || place >= job_ranks.size() || job_ranks[place] == kNoRank) {
      return error(
          Code::kInvalidArgument,
          "the MPI communicator of rank {} has a member that is not a rank of this job ({} "
          "ranks): give one of ranks that have all called hvd_init()",
          rank, job_ranks.size());
    }
    ranks.push_back(job_ranks[place]);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

}  // namespace

std::string encode(const MpiMembership& membership) {
  ByteWriter writer;
  writer.put(membership.rank);
  writer.put(membership.size);
  writer.put_vector(membership.members);
  const Bytes bytes = writer.take();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<MpiMembership> decode_membership(std::string_view bytes) {
  ByteReader reader(std::as_bytes(std::span(bytes)));
  MpiMembership membership;
  HVD_TRY_ASSIGN(membership.rank, reader.get<int>());
  HVD_TRY_ASSIGN(membership.size, reader.get<int>());
  HVD_TRY_ASSIGN(membership.members, reader.get_vector<int>());
  if (membership.rank < 0 || membership.rank >= membership.size) {
    return error(Code::kInternal, "rank {} of an MPI_COMM_WORLD of {}", membership.rank,
                 membership.size);
  }
  return membership;
}

Result<MpiMembership> members_of(const void* handle, std::size_t handle_bytes) {
  if (handle == nullptr) {
    return error(Code::kInvalidArgument,
                 "the address of the MPI communicator is null; a rank without one gives the "
                 "address of an MPI_Comm that is MPI_COMM_NULL");
  }
  HVD_TRY_ASSIGN(const std::unique_ptr<MpiLibrary> library, MpiLibrary::in_process());
  if (library == nullptr) {
    return error(Code::kUnsupported,
                 "there is no MPI in this process; list the ranks in hvd_process_set_add()");
  }
  HVD_TRY_ASSIGN(const hvd_mpi_state state, library->state());
  if (state.initialized == 0 || state.finalized != 0) {
    return error(Code::kInvalidArgument, "{} is {} in this process; a communicator needs it",
                 state.library, state.finalized != 0 ? "finalised" : "not initialised");
  }
  const hvd_mpi_plugin& calls = library->calls();
  if (handle_bytes != calls.handle_bytes) {
    return error(Code::kInvalidArgument,
                 "an MPI_Comm of {} bytes is none of {}, whose have {}; pass sizeof(MPI_Comm), and "
                 "build the program with the MPI that it runs with",
                 handle_bytes, state.library, calls.handle_bytes);
  }
  MpiMembership found{.rank = state.rank, .size = state.size, .members = {}};
  found.members.resize(static_cast<std::size_t>(state.size));
  int size = 0;
  HVD_TRY(
      library->check(calls.members(library->mpi(), handle, found.members.data(), state.size, &size),
                     "cannot ask MPI for the members of the communicator"));
  if (size == HVD_MPI_INTERCOMMUNICATOR) {
    return error(Code::kInvalidArgument,
                 "the communicator is an intercommunicator; merge it (MPI_Intercomm_merge) or "
                 "give one of its groups");
  }
  // More than the world has, from MPI_Comm_spawn: a member outside of it stays in the list.
  if (size > state.size) found.members.push_back(kNoRank);
  if (size < state.size) found.members.resize(static_cast<std::size_t>(size));
  return found;
}

Result<std::vector<std::vector<int>>> sets_of_members(const std::vector<MpiMembership>& by_rank) {
  HVD_TRY_ASSIGN(const std::vector<int> ranks_by_place, job_ranks(by_rank));
  std::vector<std::vector<int>> given;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    HVD_TRY_ASSIGN(auto ranks, translate(by_rank[rank].members, ranks_by_place, rank));
    given.push_back(std::move(ranks));
  }
  std::vector<std::vector<int>> sets;
  for (std::size_t rank = 0; rank < given.size(); ++rank) {
    for (const int member : given[rank]) {
      const std::vector<int>& other = given[static_cast<std::size_t>(member)];
      if (other == given[rank]) continue;
      return error(
          Code::kMismatch,
          "ranks disagree: rank {} gives {}, rank {} gives {}; all members of a communicator "
          "must give it",
          rank, communicator_of(given[rank]), member, communicator_of(other));
    }
    const bool is_first = !given[rank].empty() && given[rank].front() == static_cast<int>(rank);
    if (is_first) sets.push_back(given[rank]);
  }
  if (!sets.empty()) return sets;
  return error(Code::kInvalidArgument, "no rank gives an MPI communicator, all MPI_COMM_NULL");
}

}  // namespace hvd
