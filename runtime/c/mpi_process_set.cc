// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "backends/mpi/mpi_members.h"
#include "c/guard.h"
#include "c/process.h"
#include "hvd/hvd.h"

namespace {

using hvd::Code;
using hvd::Deadline;
using hvd::Engine;
using hvd::error;
using hvd::Process;
using hvd::Result;
using hvd::Status;

using Ranks = std::vector<int>;

/// The sets that all communicators together make; the same, or the same failure, on every rank.
Result<std::vector<Ranks>> agree_on_sets(Engine& engine, const void* communicator,
                                         std::size_t bytes, Deadline deadline) {
  const auto members = hvd::members_of(communicator, bytes);
  HVD_TRY_ASSIGN(const auto told,
                 engine.tell_all(members.is_ok() ? Result<std::string>(encode(members.value()))
                                                 : Result<std::string>(members.status()),
                                 deadline));
  std::vector<hvd::MpiMembership> by_rank;
  for (const std::string& one : told) {
    HVD_TRY_ASSIGN(auto membership, hvd::decode_membership(one));
    by_rank.push_back(std::move(membership));
  }
  return hvd::sets_of_members(by_rank);
}

/// Before any of them is made: half of them would be of no use.
Status check_new(const Engine& engine, const std::vector<Ranks>& sets) {
  for (const int id : engine.process_sets()) {
    HVD_TRY_ASSIGN(const Ranks ranks, engine.process_set_ranks(id));
    if (std::find(sets.begin(), sets.end(), ranks) == sets.end()) continue;
    return error(Code::kInvalidArgument,
                 "hvd_process_set_add_mpi: the communicator of rank {} has the ranks of process "
                 "set {}, which is there already; use that one",
                 ranks.front(), id);
  }
  return Status::ok();
}

}  // namespace

hvd_status hvd_process_set_add_mpi(const void* communicator, size_t communicator_size,
                                   double timeout_seconds, int32_t* process_set) noexcept {
  return hvd::guarded([&]() -> Status {
    if (process_set == nullptr) {
      return error(Code::kInvalidArgument, "hvd_process_set_add_mpi: process_set is null");
    }
    HVD_TRY_ASSIGN(const auto engine, Process::instance().engine());
    const Deadline deadline = hvd::deadline_after(timeout_seconds);
    HVD_TRY_ASSIGN(const auto sets,
                   agree_on_sets(*engine, communicator, communicator_size, deadline));
    HVD_TRY(check_new(*engine, sets));
    int mine = 0;
    for (const Ranks& ranks : sets) {
      HVD_TRY_ASSIGN(const int id, engine->add_process_set(ranks, deadline));
      const bool is_mine = std::binary_search(ranks.begin(), ranks.end(), engine->world().rank);
      if (mine == 0 || is_mine) mine = id;
    }
    *process_set = mine;
    return Status::ok();
  });
}
