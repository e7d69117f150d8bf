// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/admission.h"

#include <chrono>
#include <iterator>

#include "base/result.h"

namespace hvd {

using store_message::Reply;
using store_message::reply_of;

Admission::Answers Admission::enter(Client client, const store_message::Request& request) {
  const int process = request.rank;
  if (!roster_.may_enter(process)) {
    return {{client, reply_of(error(Code::kInvalidArgument,
                                    "the job has no process {} that lives; who is it that asks?",
                                    process))}};
  }
  // A program that a rank has started has its variables, and is not it.
  const std::string& first = who_.try_emplace(process, request.who).first->second;
  if (first != request.who) {
    return {{client, reply_of(error(Code::kMismatch,
                                    "process {0} of the job came twice: as {1}, and as {2}; a "
                                    "program that a rank starts must not call hvd.init(), or start "
                                    "under a launcher of its own",
                                    process, first, request.who))}};
  }
  Answers answers;
  const auto before = entries_.find(process);
  if (before != entries_.end()) {
    // The same process tries again before its old connection was seen to end.
    answers.emplace_back(before->second.client,
                         reply_of(error(Code::kAborted, "process {} has asked anew", process)));
  }
  // Once ranks have been at work whoever serves this ends those that do not come.
  const bool has_deadline = roster_.is_member(process) && !roster_.has_begun();
  const auto patience = std::chrono::milliseconds(request.timeout_ms);
  entries_[process] = {client, has_deadline ? Deadline::after(patience) : kForever};
  const auto lost = roster_.process_of(request.epoch, request.status);
  if (lost && *lost != process) roster_.lose(*lost);
  events_.emplace_back(ProcessEntered{process, lost});
  roster_.enter(process, request.value);
  if (end_) return answer_members(*end_);
  advance(answers);
  tell_of_newcomers(answers);
  return answers;
}

Admission::Answers Admission::aim_at(int size) {
  roster_.aim_at(size);
  Answers answers;
  advance(answers);
  tell_of_newcomers(answers);
  return answers;
}

Admission::Answers Admission::await_newcomers(Client client) {
  watchers_.insert(client);
  Answers answers;
  tell_of_newcomers(answers);
  return answers;
}

void Admission::tell_of_newcomers(Answers& answers) {
  if (!roster_.can_change()) return;
  for (const Client watcher : std::exchange(watchers_, {})) {
    answers.emplace_back(watcher, reply_of(Status::ok()));
  }
}

Admission::Answers Admission::interrupt(Client client) {
  if (watchers_.erase(client) == 0) return {};
  return {{client, reply_of(Status::ok())}};
}

Admission::Answers Admission::forget(Client client) {
  Answers answers;
  watchers_.erase(client);
  for (const auto& [process, entry] : entries_) {
    if (entry.client != client) continue;
    roster_.withdraw(process);
    entries_.erase(process);
    break;
  }
  return answers;
}

Admission::Answers Admission::process_ended(int process, bool well) {
  if (well) {
    roster_.finish(process);
  } else {
    roster_.ended(process);
  }
  entries_.erase(process);
  Answers answers;
  advance(answers);
  return answers;
}

Admission::Answers Admission::end_job(const Status& why) {
  if (!end_) end_ = why;
  return answer_members(*end_);
}

Admission::Answers Admission::answer_members(const Status& why) {
  Answers answers;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    if (!roster_.is_member(entry->first)) {
      ++entry;
      continue;
    }
    roster_.withdraw(entry->first);
    answers.emplace_back(entry->second.client, reply_of(why));
    entry = entries_.erase(entry);
  }
  return answers;
}

void Admission::advance(Answers& answers) {
  if (const auto verdict = roster_.verdict()) {
    for (auto& answer : answer_members(*verdict)) answers.push_back(std::move(answer));
    return;
  }
  const auto membership = roster_.begin(Clock::now());
  if (!membership) return;
  for (std::size_t rank = 0; rank < membership->members.size(); ++rank) {
    const Membership::Member& member = membership->members[rank];
    const auto entry = entries_.find(member.process);
    const store_message::Place place{
        .epoch = membership->epoch,
        .rank = static_cast<int>(rank),
        .size = static_cast<int>(membership->members.size()),
        .local_rank = member.local_rank,
        .local_size = member.local_size,
        .at_work = membership->at_work ? std::uint8_t{1} : std::uint8_t{0}};
    answers.emplace_back(entry->second.client,
                         Reply{.code = Code::kOk, .text = {}, .values = {encode(place)}});
    entries_.erase(entry);
  }
  events_.emplace_back(*membership);
}

Admission::Answers Admission::expire() {
  Answers answers;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    if (!entry->second.deadline.has_passed()) {
      ++entry;
      continue;
    }
    answers.emplace_back(
        entry->second.client,
        reply_of(error(Code::kTimeout, "{} did not come to hvd.init()", roster_.missing())));
    roster_.withdraw(entry->first);
    entry = entries_.erase(entry);
  }
  if (roster_.next().has_passed()) advance(answers);
  return answers;
}

Deadline Admission::next_deadline() const {
  Deadline next = roster_.next();
  for (const auto& [process, entry] : entries_) next = next.earlier(entry.deadline);
  return next;
}

}  // namespace hvd
