// SPDX-License-Identifier: Apache-2.0
#include "engine/plane/process_sets.h"

#include <algorithm>
#include <utility>

namespace hvd {

void ProcessSets::open_world(SetPlane& plane) {
  world_plane_ = &plane;
  add(0, world_.world_ranks, &plane);
}

Status ProcessSets::enter(Request& request) {
  const bool is_join = std::holds_alternative<Join>(request.operation);
  if (request.process_set != 0 || has_joined_world_.load() || is_join) return enter_known(request);
  HVD_TRY(check_request(request, world_));
  HVD_TRY(world_plane_->bind_gpu(request));
  complete_splits(request, world_);
  return Status::ok();
}

Status ProcessSets::enter_known(Request& request) {
  const auto refused = [&](std::string_view why) {
    return error(Code::kInvalidArgument, "rank {}: {} '{}': {}", world_.rank,
                 kind_name(request.operation), request.name, why);
  };
  Lock lock(mutex_);
  const auto found = sets_.find(request.process_set);
  if (found == sets_.end()) {
    return refused(
        format_text("there is no process set {}; add it first (it may have been removed)",
                    request.process_set));
  }
  const Known& set = found->second;
  if (set.plane == nullptr || set.closing) {
    return refused(format_text("{} process set {} (ranks {})",
                               set.closing ? "this rank is removing" : "this rank is not in",
                               request.process_set, describe_list(set.ranks)));
  }
  if (set.join != nullptr) {
    return refused(format_text("this rank has joined process set {}; wait for the join to end",
                               request.process_set));
  }
  if (std::holds_alternative<Join>(request.operation)) {
    return refused("a join is not a request; call hvd_join() (hvd.join())");
  }
  if (const auto root = root_of(request.operation)) {
    const auto place = std::lower_bound(set.ranks.begin(), set.ranks.end(), *root);
    if (place == set.ranks.end() || *place != *root) {
      return refused(
          format_text("root {} is not in process set {} (ranks {}); the root is a rank of the job",
                      *root, request.process_set, describe_list(set.ranks)));
    }
    set_root(request.operation, static_cast<int>(place - set.ranks.begin()));
  }
  HVD_TRY(check_request(request, set.plane->communicator()));
  HVD_TRY(set.plane->bind_gpu(request));
  complete_splits(request, set.plane->communicator());
  if (request.process_set != 0) set.plane->request_entered();
  return Status::ok();
}

Result<PendingPtr> ProcessSets::enter_join(int process_set, bool active_average) {
  Lock lock(mutex_);
  const auto found = sets_.find(process_set);
  if (found == sets_.end() || found->second.plane == nullptr || found->second.closing) {
    return error(Code::kInvalidArgument, "rank {}: join: this rank is in no process set {}",
                 world_.rank, process_set);
  }
  Known& set = found->second;
  if (set.join != nullptr) {
    if (set.join->active_average == active_average) return set.join;
    return error(Code::kInvalidArgument,
                 "rank {}: this rank has joined process set {} with another kind of average",
                 world_.rank, process_set);
  }
  Request request;
  request.name = "join";
  request.process_set = process_set;
  request.operation = Join{};
  set.join = completion_.add(std::move(request));
  set.join->active_average = active_average;
  if (process_set != 0) set.plane->request_entered();
  if (process_set == 0) has_joined_world_.store(true);
  submission_.push(set.join);
  return set.join;
}

void ProcessSets::leave_join(int process_set, const PendingPtr& join) {
  Lock lock(mutex_);
  const auto found = sets_.find(process_set);
  if (found == sets_.end() || found->second.join != join) return;
  completion_.release(join->handle);
  found->second.join = nullptr;
  if (process_set == 0) has_joined_world_.store(false);
}

Status ProcessSets::check_new(std::vector<int>& ranks) const {
  if (ranks.empty()) {
    return error(Code::kInvalidArgument, "rank {}: a process set needs at least one rank",
                 world_.rank);
  }
  std::sort(ranks.begin(), ranks.end());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] < 0 || ranks[i] >= world_.size) {
      return error(Code::kInvalidArgument,
                   "rank {}: process set {}: {} is not a rank of the job (0 to {})", world_.rank,
                   describe_list(ranks), ranks[i], world_.size - 1);
    }
    if (i > 0 && ranks[i] == ranks[i - 1]) {
      return error(Code::kInvalidArgument,
                   "rank {}: process set {}: rank {} is listed twice; list each rank once",
                   world_.rank, describe_list(ranks), ranks[i]);
    }
  }
  Lock lock(mutex_);
  for (const auto& [id, set] : sets_) {
    if (set.ranks != ranks) continue;
    return error(Code::kInvalidArgument,
                 "rank {}: the ranks {} are process set {} already; use that one", world_.rank,
                 describe_list(ranks), id);
  }
  return Status::ok();
}

void ProcessSets::add(int process_set, std::vector<int> ranks, SetPlane* plane) {
  Lock lock(mutex_);
  sets_[process_set] = {std::move(ranks), plane, false, nullptr};
}

Result<const SetPlane*> ProcessSets::close(int process_set) {
  if (process_set == 0) {
    return error(Code::kInvalidArgument,
                 "rank {}: process set 0 is that of all ranks and cannot be removed", world_.rank);
  }
  Lock lock(mutex_);
  const auto found = sets_.find(process_set);
  if (found == sets_.end()) {
    return error(Code::kInvalidArgument, "rank {}: there is no process set {} to remove",
                 world_.rank, process_set);
  }
  found->second.closing = true;
  return {found->second.plane};
}

void ProcessSets::reopen(int process_set) {
  Lock lock(mutex_);
  sets_[process_set].closing = false;
}

void ProcessSets::erase(int process_set) {
  Lock lock(mutex_);
  sets_.erase(process_set);
}

std::vector<int> ProcessSets::ids() const {
  Lock lock(mutex_);
  std::vector<int> ids;
  for (const auto& [id, set] : sets_) ids.push_back(id);
  return ids;
}

Result<std::vector<int>> ProcessSets::ranks_of(int process_set) const {
  Lock lock(mutex_);
  const auto found = sets_.find(process_set);
  if (found == sets_.end()) {
    return error(Code::kInvalidArgument,
                 "rank {}: there is no process set {}; add it first (it may have been removed)",
                 world_.rank, process_set);
  }
  return found->second.ranks;
}

std::map<int, ProcessSets::Known> ProcessSets::snapshot() const {
  Lock lock(mutex_);
  return sets_;
}

}  // namespace hvd
