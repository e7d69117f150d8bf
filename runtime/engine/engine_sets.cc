// SPDX-License-Identifier: Apache-2.0
// Process sets: added and removed by all ranks together, on the threads of their callers.
//
// A change is made of collectives over all ranks, so that a rank that is late, dies or disagrees is
// found as in any other: they exchange what each wants (propose), what each found out or opened
// (answer), for a new set how its connections went (connected), and in the end that the log has
// told all of the change (done). Between the last two the root writes the change into the log.
#include <algorithm>

#include "engine/engine_impl.h"

namespace hvd {
namespace {

/// All ranks are known to be in the change by now: only a defect or a stopped process makes them
/// wait this much longer than the least patient of them.
constexpr std::chrono::seconds kGrace{30};

Deadline with_grace(Deadline deadline) {
  const auto now = Clock::now();
  const auto from = deadline.is_forever() ? now : std::max(deadline.time(), now);
  return Deadline::at(from + 2 * kGrace);  // to connect, and to hear how it went
}

}  // namespace

Status Engine::Impl::enter_set(Request& request) {
  Lock lock(sets_mutex_);
  const auto found = sets_.find(request.process_set);
  if (found == sets_.end()) {
    return error(Code::kInvalidArgument,
                 "rank {}: {} '{}': there is no process set {}; add it first (it may have been "
                 "removed)",
                 wiring_.rank, kind_name(request.operation), request.name, request.process_set);
  }
  const KnownSet& set = found->second;
  if (set.plane == nullptr || set.closing) {
    return error(Code::kInvalidArgument, "rank {}: {} '{}': {} process set {} (ranks {})",
                 wiring_.rank, kind_name(request.operation), request.name,
                 set.closing ? "this rank is removing" : "this rank is not in", request.process_set,
                 describe_list(set.ranks));
  }
  if (set.join != nullptr || std::holds_alternative<Join>(request.operation)) {
    return error(Code::kInvalidArgument, "rank {}: {} '{}': {}", wiring_.rank,
                 kind_name(request.operation), request.name,
                 set.join != nullptr
                     ? format_text("this rank has joined process set {}; wait for the join to end",
                                   request.process_set)
                     : "a join is no request; call hvd_join() (hvd.join())");
  }
  if (const auto root = root_of(request.operation)) {
    const auto place = std::lower_bound(set.ranks.begin(), set.ranks.end(), *root);
    if (place == set.ranks.end() || *place != *root) {
      return error(Code::kInvalidArgument,
                   "rank {}: {} '{}': root {} is not in process set {} (ranks {}); the root is a "
                   "rank of the job",
                   wiring_.rank, kind_name(request.operation), request.name, *root,
                   request.process_set, describe_list(set.ranks));
    }
    set_root(request.operation, static_cast<int>(place - set.ranks.begin()));
  }
  HVD_TRY(check_request(request, set.plane->communicator));
  HVD_TRY(bind_gpu(*set.plane, request));
  complete_splits(request, set.plane->communicator);
  if (request.process_set != 0) set.plane->in_flight.fetch_add(1);
  return Status::ok();
}

Result<Engine::Handle> Engine::Impl::post(std::string name, Bytes mine) {
  if (is_over()) return over_status();
  if (leaving_.load()) {
    return error(Code::kAborted, "rank {}: a change of the process sets comes after shutdown",
                 wiring_.rank);
  }
  if (has_joined_world_.load()) {
    return error(Code::kInvalidArgument,
                 "rank {}: this rank has joined all others; the process sets change after that",
                 wiring_.rank);
  }
  // Lives as long as the request, which may outlast the call that gives up waiting for it.
  const auto bytes = std::make_shared<Bytes>(std::move(mine));
  Request request;
  request.name = std::move(name);
  request.operation = Allgather{};
  request.tensors.push_back({.input = bytes->data(),
                             .dtype = DataType::kUint8,
                             .shape = {static_cast<std::int64_t>(bytes->size())}});
  request.on_complete = [bytes](const Status&) {};
  const PendingPtr pending = completion_.add(std::move(request));
  pending->cacheable = false;
  submission_.push(pending);
  flush();
  return pending->handle;
}

Result<std::vector<Bytes>> Engine::Impl::exchange(std::string name, Bytes mine, Deadline deadline) {
  HVD_TRY_ASSIGN(const Handle handle, post(std::move(name), std::move(mine)));
  HVD_TRY_ASSIGN(const PendingPtr pending, completion_.find(handle));
  const Status status = wait(handle, deadline);
  completion_.release(handle);
  HVD_TRY(status);
  const GatherResult& gathered = pending->gathered.front();
  std::vector<Bytes> by_rank;
  const std::byte* next = gathered.data.get();
  for (const std::int64_t rows : gathered.rows) {
    by_rank.emplace_back(next, next + rows);
    next += rows;
  }
  return by_rank;
}

Result<Deadline> Engine::Impl::agree_on_change(std::uint64_t number, const SetProposal& mine) {
  const Deadline deadline = mine.patience_ms == SetProposal::kNoLimit
                                ? kForever
                                : Deadline::after(std::chrono::milliseconds(mine.patience_ms));
  const auto all = exchange(format_text("process_set.{}.propose", number), encode(mine), deadline);
  Status status = all.status();
  std::vector<SetProposal> proposals;
  if (status.is_ok()) {
    for (const Bytes& bytes : all.value()) {
      HVD_TRY_ASSIGN(auto proposal, decode_proposal(bytes));
      proposals.push_back(std::move(proposal));
    }
    status = check_proposals(proposals);
  } else if (status.code() == Code::kInvalidArgument) {
    --changes_;  // some rank has joined and does not count this change
    return status;
  } else if (status.code() == Code::kTimeout) {
    status = error(Code::kTimeout,
                   "rank {}: not all ranks came to change the process sets in time; every rank of "
                   "the job must add and remove the same sets, also those it is not in",
                   wiring_.rank);
  }
  if (status.is_ok()) return common_deadline(proposals);
  // Whoever comes later finds our answer and need not wait for more.
  const auto posted =
      post(format_text("process_set.{}.answer", number),
           encode(SetAnswer{error(status.code(), "gave up: {}", status.message()), std::string()}));
  if (posted.is_ok()) completion_.release(posted.value());
  return status;
}

Result<std::vector<SetAnswer>> Engine::Impl::answer(std::uint64_t number, std::string_view step,
                                                    const SetAnswer& mine, Deadline deadline) {
  const auto all =
      exchange(format_text("process_set.{}.{}", number, step), encode(mine), with_grace(deadline));
  if (!all.is_ok() && all.status().code() == Code::kTimeout) {
    // Half of the ranks may have made the change: there is no way back to one view.
    abort("a change of the process sets came to a stop half-way");
    return error(Code::kTimeout, "rank {}: a change of the process sets came to a stop half-way",
                 wiring_.rank);
  }
  HVD_TRY(all.status());
  std::vector<SetAnswer> answers;
  for (const Bytes& bytes : all.value()) {
    HVD_TRY_ASSIGN(auto answer, decode_answer(bytes));
    answers.push_back(std::move(answer));
  }
  HVD_TRY(first_failure(answers, world_.hosts));
  return answers;
}

Status Engine::Impl::check_new_set(std::vector<int>& ranks) const {
  if (ranks.empty()) {
    return error(Code::kInvalidArgument, "rank {}: a process set needs at least one rank",
                 wiring_.rank);
  }
  std::sort(ranks.begin(), ranks.end());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] < 0 || ranks[i] >= world_.size) {
      return error(Code::kInvalidArgument,
                   "rank {}: process set {}: {} is not a rank of the job (0 to {})", wiring_.rank,
                   describe_list(ranks), ranks[i], world_.size - 1);
    }
    if (i > 0 && ranks[i] == ranks[i - 1]) {
      return error(Code::kInvalidArgument,
                   "rank {}: process set {}: rank {} is listed twice; list each rank once",
                   wiring_.rank, describe_list(ranks), ranks[i]);
    }
  }
  Lock lock(sets_mutex_);
  for (const auto& [id, set] : sets_) {
    if (set.ranks != ranks) continue;
    return error(Code::kInvalidArgument,
                 "rank {}: the ranks {} are process set {} already; use that one", wiring_.rank,
                 describe_list(ranks), id);
  }
  return Status::ok();
}

Result<int> Engine::Impl::add_process_set(std::vector<int> ranks, Deadline deadline) {
  if (is_over()) return over_status();
  Lock change(change_mutex_);
  HVD_TRY(check_new_set(ranks));
  const std::uint64_t number = changes_++;
  SetProposal proposal{.kind = SetProposal::Kind::kAdd, .ranks = ranks};
  proposal.set_deadline(deadline);
  HVD_TRY_ASSIGN(const Deadline common, agree_on_change(number, proposal));
  auto formed = form_set(number, ranks, common);
  if (std::binary_search(ranks.begin(), ranks.end(), wiring_.rank)) wiring_.sets->withdraw();
  if (!formed.is_ok()) {
    Lock lock(progress_);
    forming_ = nullptr;
  }
  return formed;
}

Result<std::vector<std::string>> Engine::Impl::tell_all(Result<std::string> mine,
                                                        Deadline deadline) {
  if (is_over()) return over_status();
  Lock change(change_mutex_);
  const std::uint64_t number = changes_++;
  SetProposal proposal{.kind = SetProposal::Kind::kTell};
  proposal.set_deadline(deadline);
  HVD_TRY_ASSIGN(const Deadline common, agree_on_change(number, proposal));
  SetAnswer told{mine.status(), mine.is_ok() ? std::move(mine).value() : std::string()};
  HVD_TRY_ASSIGN(auto answers, answer(number, "answer", told, common));
  std::vector<std::string> by_rank;
  by_rank.reserve(answers.size());
  for (SetAnswer& given : answers) by_rank.push_back(std::move(given.offer));
  return by_rank;
}

Result<int> Engine::Impl::form_set(std::uint64_t number, const std::vector<int>& ranks,
                                   Deadline deadline) {
  const bool member = std::binary_search(ranks.begin(), ranks.end(), wiring_.rank);
  SetAnswer mine;
  if (member) {
    auto offer = wiring_.sets->offer();
    mine.status = offer.status();
    if (offer.is_ok()) mine.offer = std::move(offer).value();
  }
  HVD_TRY_ASSIGN(auto answers, answer(number, "answer", mine, deadline));
  SetAnswer outcome;
  if (member) {
    // All ranks are there by now: what does not connect soon never will.
    SetWiring::Plan plan{.number = number,
                         .rank = wiring_.rank,
                         .deadline = deadline.earlier(Deadline::after(kGrace))};
    for (SetAnswer& given : answers) plan.offers.push_back(std::move(given.offer));
    auto plane = connect_set(plan, ranks);
    outcome.status = plane.status();
    Lock lock(progress_);
    if (plane.is_ok()) forming_ = std::move(plane).value();
  }
  HVD_TRY(answer(number, "connected", outcome, deadline).status());
  {
    RankSet set(world_.size);
    for (const int rank : ranks) set.add(rank);
    Lock lock(progress_);
    if (!is_over()) negotiation_->add_set(set);
  }
  HVD_TRY(answer(number, "done", SetAnswer{}, deadline).status());
  Lock lock(progress_);
  return last_formed_;
}

Result<std::unique_ptr<SetPlane>> Engine::Impl::connect_set(const SetWiring::Plan& plan,
                                                            const std::vector<int>& ranks) {
  auto plane = std::make_unique<SetPlane>();
  plane->communicator = part_of(world_, ranks);
  SetWiring::Plan complete = plan;
  complete.nodes = world_ranks_by_node(plane->communicator);
  complete.memory_bytes = [table = table_](int local_size) {
    return plane_memory_bytes(table, local_size);
  };
  HVD_TRY_ASSIGN(plane->links, wiring_.sets->connect(complete));
  std::vector<int> neighbours;
  const std::vector<int>& node = world_.nodes[static_cast<std::size_t>(world_.node)];
  for (std::size_t i = 0; i < node.size(); ++i) {
    if (std::binary_search(ranks.begin(), ranks.end(), node[i])) {
      neighbours.push_back(static_cast<int>(i));
    }
  }
  plane->doorbell = wiring_.node.doorbell->among(neighbours);
  plane->arena = {wiring_.node.arena, neighbours};
  plane->open(table_, plane->links.memory, options_);
  return plane;
}

void Engine::Impl::apply_formed(const SetFormed& formed) {
  last_formed_ = formed.process_set;
  launch_order_.add_set(formed.process_set, formed.ranks.ranks());
  SetPlane* plane = nullptr;
  if (formed.ranks.contains(wiring_.rank)) {
    if (forming_ == nullptr) {
      return end_epoch(error(Code::kInternal, "rank {}: process set {} is not connected here",
                             wiring_.rank, formed.process_set));
    }
    plane = forming_.get();
    plane->communicator.process_set = formed.process_set;
    planes_.push_back(std::move(forming_));
    if (const Status status = watch_lanes(*plane); !status.is_ok()) return end_epoch(status);
    publish_descriptors();
  }
  Lock lock(sets_mutex_);
  sets_[formed.process_set] = {formed.ranks.ranks(), plane, false, nullptr};
}

Result<const SetPlane*> Engine::Impl::close_set(int process_set) {
  if (process_set == 0) {
    return error(Code::kInvalidArgument,
                 "rank {}: process set 0 is that of all ranks and cannot be removed", wiring_.rank);
  }
  Lock lock(sets_mutex_);
  const auto found = sets_.find(process_set);
  if (found == sets_.end()) {
    return error(Code::kInvalidArgument, "rank {}: there is no process set {} to remove",
                 wiring_.rank, process_set);
  }
  found->second.closing = true;
  return {found->second.plane};
}

void Engine::Impl::reopen_set(int process_set) {
  Lock lock(sets_mutex_);
  sets_[process_set].closing = false;
}

std::unique_ptr<SetPlane> Engine::Impl::retire_set(int process_set) {
  {
    Lock lock(sets_mutex_);
    sets_.erase(process_set);
  }
  launch_order_.remove_set(process_set);
  const auto found = std::find_if(planes_.begin(), planes_.end(), [&](const auto& plane) {
    return plane->communicator.process_set == process_set;
  });
  if (found == planes_.end()) return nullptr;
  auto plane = std::move(*found);
  planes_.erase(found);
  unwatch_lanes(*plane);
  publish_descriptors();
  return plane;
}

Status Engine::Impl::remove_process_set(int process_set, Deadline deadline) {
  if (is_over()) return over_status();
  Lock change(change_mutex_);
  HVD_TRY_ASSIGN(const SetPlane* const closed, close_set(process_set));
  const std::uint64_t in_flight = await_unattended(closed, deadline);
  const std::uint64_t number = changes_++;
  SetProposal proposal{
      .kind = SetProposal::Kind::kRemove, .process_set = process_set, .in_flight = in_flight};
  proposal.set_deadline(deadline);
  const auto common = agree_on_change(number, proposal);
  Status status = common.status();
  if (status.is_ok()) {
    status = answer(number, "answer", SetAnswer{}, common.value()).status();
  }
  if (!status.is_ok()) {
    reopen_set(process_set);
    return status;
  }
  std::unique_ptr<SetPlane> plane;
  {
    Lock lock(progress_);
    if (is_over()) return over_status();
    plane = retire_set(process_set);
    negotiation_->remove_set(process_set);
  }
  // Its connections close only when nobody watches them any more: their end is no loss.
  return answer(number, "done", SetAnswer{}, common.value()).status();
}

std::vector<int> Engine::Impl::process_sets() const {
  Lock lock(sets_mutex_);
  std::vector<int> ids;
  for (const auto& [id, set] : sets_) ids.push_back(id);
  return ids;
}

Result<std::vector<int>> Engine::Impl::process_set_ranks(int process_set) const {
  Lock lock(sets_mutex_);
  const auto found = sets_.find(process_set);
  if (found == sets_.end()) {
    return error(Code::kInvalidArgument,
                 "rank {}: there is no process set {}; add it first (it may have been removed)",
                 wiring_.rank, process_set);
  }
  return found->second.ranks;
}

}  // namespace hvd
