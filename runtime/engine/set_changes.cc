// SPDX-License-Identifier: Apache-2.0
#include "engine/set_changes.h"

#include <algorithm>
#include <utility>

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

Result<PendingPtr> SetChanges::post(std::string name, Bytes mine) {
  const Ending& ending = epoch_.ending();
  if (ending.is_over()) return ending.why();
  if (ending.is_leaving()) {
    return error(Code::kAborted, "rank {}: a change of the process sets comes after shutdown",
                 rank());
  }
  if (epoch_.sets().has_joined_world()) {
    return error(Code::kInvalidArgument,
                 "rank {}: this rank has joined all others; the process sets change after that",
                 rank());
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
  PendingPtr pending = completion_.add(std::move(request));
  pending->cacheable = false;
  submission_.push(pending);
  driver_.wake();
  return pending;
}

Result<std::vector<Bytes>> SetChanges::exchange(std::string name, Bytes mine, Deadline deadline) {
  HVD_TRY_ASSIGN(const PendingPtr pending, post(std::move(name), std::move(mine)));
  const bool has_come = driver_.await(*pending, Until::kDone, deadline);
  completion_.release(pending->handle);
  if (!has_come) return pending->not_in_time(rank());
  HVD_TRY(pending->status);
  const GatherResult& gathered = pending->gathered.front();
  std::vector<Bytes> by_rank;
  const std::byte* next = gathered.data.get();
  for (const std::int64_t rows : gathered.rows) {
    by_rank.emplace_back(next, next + rows);
    next += rows;
  }
  return by_rank;
}

Result<Deadline> SetChanges::agree(std::uint64_t number, SetProposal mine, Deadline deadline) {
  mine.set_deadline(deadline);
  const Deadline patience = mine.patience_ms == SetProposal::kNoLimit
                                ? kForever
                                : Deadline::after(std::chrono::milliseconds(mine.patience_ms));
  const auto all = exchange(format_text("process_set.{}.propose", number), encode(mine), patience);
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
                   rank());
  }
  if (status.is_ok()) return common_deadline(proposals);
  // Whoever comes later finds our answer and need not wait for more.
  const auto posted =
      post(format_text("process_set.{}.answer", number),
           encode(SetAnswer{error(status.code(), "gave up: {}", status.message()), std::string()}));
  if (posted.is_ok()) completion_.release(posted.value()->handle);
  return status;
}

Result<std::vector<SetAnswer>> SetChanges::answer(std::uint64_t number, std::string_view step,
                                                  const SetAnswer& mine, Deadline deadline) {
  const auto all =
      exchange(format_text("process_set.{}.{}", number, step), encode(mine), with_grace(deadline));
  if (!all.is_ok() && all.status().code() == Code::kTimeout) {
    // Half of the ranks may have made the change: there is no way back to one view.
    const std::string cause = "a change of the process sets came to a stop half-way";
    {
      Lock lock(epoch_.progress());
      epoch_.abort(cause);
    }
    completion_.run_callbacks();
    return error(Code::kTimeout, "rank {}: {}", rank(), cause);
  }
  HVD_TRY(all.status());
  std::vector<SetAnswer> answers;
  for (const Bytes& bytes : all.value()) {
    HVD_TRY_ASSIGN(auto answer, decode_answer(bytes));
    answers.push_back(std::move(answer));
  }
  HVD_TRY(first_failure(answers, epoch_.world().hosts));
  return answers;
}

Result<int> SetChanges::add(std::vector<int> ranks, Deadline deadline) {
  if (epoch_.ending().is_over()) return epoch_.ending().why();
  Lock change(mutex_);
  HVD_TRY(epoch_.sets().check_new(ranks));
  const std::uint64_t number = changes_++;
  HVD_TRY_ASSIGN(const Deadline common,
                 agree(number, {.kind = SetProposal::Kind::kAdd, .ranks = ranks}, deadline));
  auto formed = form(number, ranks, common);
  if (std::binary_search(ranks.begin(), ranks.end(), rank())) epoch_.withdraw_offer();
  if (!formed.is_ok()) {
    Lock lock(epoch_.progress());
    epoch_.set_forming(nullptr);
  }
  return formed;
}

Result<std::vector<std::string>> SetChanges::tell_all(Result<std::string> mine, Deadline deadline) {
  if (epoch_.ending().is_over()) return epoch_.ending().why();
  Lock change(mutex_);
  const std::uint64_t number = changes_++;
  HVD_TRY_ASSIGN(const Deadline common,
                 agree(number, {.kind = SetProposal::Kind::kTell}, deadline));
  SetAnswer told{mine.status(), mine.is_ok() ? std::move(mine).value() : std::string()};
  HVD_TRY_ASSIGN(auto answers, answer(number, "answer", told, common));
  std::vector<std::string> by_rank;
  by_rank.reserve(answers.size());
  for (SetAnswer& given : answers) by_rank.push_back(std::move(given.offer));
  return by_rank;
}

Result<int> SetChanges::form(std::uint64_t number, const std::vector<int>& ranks,
                             Deadline deadline) {
  const bool member = std::binary_search(ranks.begin(), ranks.end(), rank());
  SetAnswer mine;
  if (member) {
    auto offer = epoch_.offer_links();
    mine.status = offer.status();
    if (offer.is_ok()) mine.offer = std::move(offer).value();
  }
  HVD_TRY_ASSIGN(auto answers, answer(number, "answer", mine, deadline));
  SetAnswer outcome;
  if (member) {
    // All ranks are there by now: what does not connect soon never will.
    SetWiring::Plan plan{
        .number = number, .rank = rank(), .deadline = deadline.earlier(Deadline::after(kGrace))};
    for (SetAnswer& given : answers) plan.offers.push_back(std::move(given.offer));
    auto plane = epoch_.connect_set(std::move(plan), ranks);
    outcome.status = plane.status();
    Lock lock(epoch_.progress());
    if (plane.is_ok()) epoch_.set_forming(std::move(plane).value());
  }
  HVD_TRY(answer(number, "connected", outcome, deadline).status());
  {
    RankSet set(epoch_.world().size);
    for (const int rank : ranks) set.add(rank);
    Lock lock(epoch_.progress());
    epoch_.add_set(set);
  }
  HVD_TRY(answer(number, "done", SetAnswer{}, deadline).status());
  Lock lock(epoch_.progress());
  return epoch_.last_formed();
}

std::size_t SetChanges::await_unattended(const SetPlane* plane, Deadline deadline) {
  if (plane == nullptr) return 0;
  if (plane->unattended() > 0) {
    driver_.ring();
    completion_.wait_until([&] { return plane->unattended() == 0 || epoch_.ending().is_over(); },
                           deadline);
  }
  return plane->requests();
}

Status SetChanges::remove(int process_set, Deadline deadline) {
  if (epoch_.ending().is_over()) return epoch_.ending().why();
  Lock change(mutex_);
  HVD_TRY_ASSIGN(const SetPlane* const closed, epoch_.sets().close(process_set));
  const std::uint64_t in_flight = await_unattended(closed, deadline);
  const std::uint64_t number = changes_++;
  const auto common = agree(
      number,
      {.kind = SetProposal::Kind::kRemove, .process_set = process_set, .in_flight = in_flight},
      deadline);
  Status status = common.status();
  if (status.is_ok()) {
    status = answer(number, "answer", SetAnswer{}, common.value()).status();
  }
  if (!status.is_ok()) {
    epoch_.sets().reopen(process_set);
    return status;
  }
  std::unique_ptr<SetPlane> plane;
  {
    Lock lock(epoch_.progress());
    if (epoch_.ending().is_over()) return epoch_.ending().why();
    plane = epoch_.remove_set(process_set);
  }
  // Its connections close only when nobody watches them any more: their end is not a loss.
  return answer(number, "done", SetAnswer{}, common.value()).status();
}

}  // namespace hvd
