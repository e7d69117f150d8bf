// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/store_board.h"

#include <algorithm>
#include <chrono>

#include "base/result.h"
#include "bootstrap/store.h"

namespace hvd {

using store_message::Reply;
using store_message::reply_of;
using store_message::Request;
using store_message::Verb;

namespace {

constexpr int kStoreItself = -1;

Deadline deadline_of(const Request& request) {
  return Deadline::after(std::chrono::milliseconds(
      std::min<std::uint64_t>(request.timeout_ms, 1000ULL * 3600 * 24 * 365)));
}

Status void_membership() {
  return error(Code::kPeerLost, "a rank left while the ranks of this membership met");
}

void append(std::vector<StoreBoard::Answer>& answers, std::vector<StoreBoard::Answer> more) {
  answers.insert(answers.end(), std::make_move_iterator(more.begin()),
                 std::make_move_iterator(more.end()));
}

}  // namespace

std::vector<StoreBoard::Answer> StoreBoard::handle(Client client, Request request) {
  std::vector<Answer> answers;
  // Whoever asks for something else watches no longer; each request has one answer, in order.
  if (watching_.erase(client) != 0) answers.push_back({client, reply_of(Status::ok())});
  if (admission_) append(answers, admitted(admission_->interrupt(client)));
  if (const auto waited = attendance_ ? attendance_->interrupt(client) : std::nullopt) {
    answers.push_back({client, waited->second});
  }
  switch (request.verb) {
    case Verb::kSet:
      append(answers, set(client, std::move(request)));
      break;
    case Verb::kWait:
      waiting_.push_back({client, request.key, deadline_of(request)});
      if (const auto found = values_.find(request.key); found != values_.end()) {
        waiting_.pop_back();
        answers.push_back({client, {.code = Code::kOk, .text = {}, .values = {found->second}}});
      }
      break;
    case Verb::kJoin:
      append(answers, leave(client));
      append(answers, gather(client, std::move(request)));
      break;
    case Verb::kGather:
      append(answers, gather(client, std::move(request)));
      break;
    case Verb::kFail:
      append(answers, fail(client, request));
      break;
    case Verb::kWatch:
      append(answers, watch(client));
      break;
    case Verb::kEnter:
      append(answers, enter(client, request));
      break;
    case Verb::kAwaitNewcomers:
      append(answers, await_newcomers(client));
      break;
    case Verb::kAttend:
    case Verb::kEnded:
      append(answers, attend(client, request));
      break;
  }
  return answers;
}

std::vector<StoreBoard::Answer> StoreBoard::set(Client client, Request request) {
  std::vector<Answer> answers;
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    if (waiting.key != request.key) return false;
    answers.push_back({waiting.client, {.code = Code::kOk, .text = {}, .values = {request.value}}});
    return true;
  });
  values_.insert_or_assign(std::move(request.key), std::move(request.value));
  answers.push_back({client, reply_of(Status::ok())});
  return answers;
}

std::vector<StoreBoard::Answer> StoreBoard::enter(Client client, const Request& request) {
  if (!admission_) {
    return {{client, reply_of(error(Code::kInvalidArgument, "the job is not elastic"))}};
  }
  auto answers = leave(client);
  append(answers, admitted(admission_->enter(client, request)));
  return answers;
}

std::vector<StoreBoard::Answer> StoreBoard::await_newcomers(Client client) {
  if (!admission_) {
    return {{client, reply_of(error(Code::kInvalidArgument, "the job is not elastic"))}};
  }
  return admitted(admission_->await_newcomers(client));
}

std::vector<StoreBoard::Answer> StoreBoard::attend(Client client, const Request& request) {
  if (!attendance_) {
    return {{client, reply_of(error(Code::kInvalidArgument, "the job is not elastic"))}};
  }
  const auto answer = request.verb == Verb::kAttend ? attendance_->attend(client, request)
                                                    : attendance_->ended(client, request);
  if (!answer) return {};
  return {{answer->first, answer->second}};
}

std::vector<StoreBoard::Answer> StoreBoard::kill(int process) {
  const auto answer = attendance_ ? attendance_->kill(process) : std::nullopt;
  if (!answer) return {};
  return {{answer->first, answer->second}};
}

std::vector<StoreBoard::Answer> StoreBoard::answer_end(int process, int successor) {
  const auto answer = attendance_ ? attendance_->answer_end(process, successor) : std::nullopt;
  if (!answer) return {};
  return {{answer->first, answer->second}};
}

void StoreBoard::add_process() {
  if (!admission_) return;
  admission_->add_process();
  attendance_->add_process();
}

std::vector<StoreBoard::Answer> StoreBoard::aim_at(int size) {
  if (!admission_) return {};
  return admitted(admission_->aim_at(size));
}

std::vector<StoreBoard::Answer> StoreBoard::admitted(Admission::Answers admitted) {
  std::vector<Answer> answers;
  for (auto& [client, reply] : admitted) answers.push_back({client, std::move(reply)});
  std::vector<RoundKey> keys;
  for (const auto& [key, round] : rounds_) {
    if (round.epoch != 0 && !admission_->may_join(round.epoch)) keys.push_back(key);
  }
  for (const RoundKey& key : keys) answer_round(key, void_membership(), answers);
  return answers;
}

std::vector<StoreBoard::Answer> StoreBoard::end_job(const Status& why) {
  return admission_ ? admitted(admission_->end_job(why)) : std::vector<Answer>();
}

std::vector<ElasticEvent> StoreBoard::take_events() {
  if (!admission_) return {};
  std::vector<ElasticEvent> events = attendance_->take_events();
  for (ElasticEvent& event : admission_->take_events()) events.push_back(std::move(event));
  return events;
}

StoreBoard::Attempt StoreBoard::attempt_of(Client client) const {
  const auto member = members_.find(client);
  return member == members_.end() ? 0 : member->second.attempt;
}

std::optional<Status> StoreBoard::unheard_failure(int rank) {
  failures_.erase(rank);
  std::uint64_t& heard = heard_[rank];
  const std::uint64_t before = heard;
  heard = last_failure_;
  const Failure* first = nullptr;
  for (const auto& [failed, failure] : failures_) {
    if (failure.number > before && (first == nullptr || failure.number < first->number)) {
      first = &failure;
    }
  }
  return first != nullptr ? std::optional(first->why) : ended_;
}

std::optional<Status> StoreBoard::check_entry(const Round& round, const Request& request) const {
  if (round.size != 0 && round.size != request.size) {
    return error(Code::kMismatch, "rank {} believes in a world of {} ranks, others in {}",
                 request.rank, request.size, round.size);
  }
  const auto found = round.entries.find(request.rank);
  if (found == round.entries.end()) return std::nullopt;
  // The same process tries again before its old connection was seen to end.
  if (!request.who.empty() && found->second.who == request.who) return std::nullopt;
  const std::string both = request.who.empty()
                               ? std::string()
                               : format_text(" ({}; {})", found->second.who, request.who);
  return error(Code::kMismatch,
               "rank {} came twice: two processes hold the same rank{}; check how the job was "
               "launched",
               request.rank, both);
}

std::vector<StoreBoard::Answer> StoreBoard::gather(Client client, Request request) {
  const RoundKey key{attempt_of(client), std::move(request.key)};
  const bool joins = request.verb == Verb::kJoin;
  const bool has_place = joins && admission_;
  if (has_place && !admission_->may_join(request.epoch)) {
    return {{client, reply_of(void_membership())}};
  }
  if (const auto attempt = attempts_.find(key.first);
      attempt != attempts_.end() && attempt->second.failure) {
    return {{client, reply_of(*attempt->second.failure)}};
  }
  if (joins && !has_place) {
    if (const auto failure = unheard_failure(request.rank)) return {{client, reply_of(*failure)}};
  }
  Round& round = rounds_[key];
  if (const auto refusal = check_entry(round, request)) {
    // Nobody can tell which of them is right: all that wait here hear of it.
    std::vector<Answer> answers;
    answer_round(key, *refusal, answers);
    answers.push_back({client, reply_of(*refusal)});
    return answers;
  }
  round.size = request.size;
  round.epoch = has_place ? request.epoch : 0;
  round.entries[request.rank] = {.client = client,
                                 .joins = joins,
                                 .who = std::move(request.who),
                                 .value = std::move(request.value),
                                 .deadline = deadline_of(request)};
  if (static_cast<int>(round.entries.size()) < round.size) return {};
  return complete(key);
}

std::vector<StoreBoard::Answer> StoreBoard::complete(const RoundKey& key) {
  const Round round = std::move(rounds_.at(key));
  rounds_.erase(key);
  Reply reply;
  bool all_join = true;
  for (const auto& [rank, entry] : round.entries) {
    reply.values.push_back(entry.value);
    all_join = all_join && entry.joins;
  }
  if (all_join) {
    ++last_attempt_;
    failures_.clear();
    attempts_[last_attempt_].left = round.size;
    if (admission_) admission_->met();
  }
  std::vector<Answer> answers;
  for (const auto& [rank, entry] : round.entries) {
    if (all_join) members_[entry.client] = {last_attempt_, rank, entry.who};
    answers.push_back({entry.client, reply});
  }
  return answers;
}

void StoreBoard::answer_round(const RoundKey& key, const Status& why,
                              std::vector<Answer>& answers) {
  const auto round = rounds_.find(key);
  if (round == rounds_.end()) return;
  for (const auto& [rank, entry] : round->second.entries) {
    if (entry.joins) heard_[rank] = last_failure_;
    answers.push_back({entry.client, reply_of(why)});
  }
  rounds_.erase(round);
}

std::vector<StoreBoard::Answer> StoreBoard::fail_joining(int rank, const Status& why) {
  failures_.insert_or_assign(rank, Failure{++last_failure_, why});
  if (rank != kStoreItself) heard_[rank] = last_failure_;
  return answer_joining(why);
}

std::vector<StoreBoard::Answer> StoreBoard::answer_joining(const Status& why) {
  std::vector<Answer> answers;
  std::vector<RoundKey> keys;
  for (const auto& [key, round] : rounds_) {
    if (key.first == 0 && round.entries.begin()->second.joins) keys.push_back(key);
  }
  for (const RoundKey& key : keys) answer_round(key, why, answers);
  return answers;
}

std::vector<StoreBoard::Answer> StoreBoard::fail_joining(const Status& why) {
  return fail_joining(kStoreItself, why);
}

std::vector<StoreBoard::Answer> StoreBoard::rank_ended(int rank, const Status& why, bool well) {
  if (admission_) return admitted(admission_->process_ended(rank, well));
  if (!ended_) ended_ = why;
  // What it said itself, or what ended with it, is the cause; who has heard that may wait again.
  const auto said = failures_.find(rank);
  return said == failures_.end() ? fail_joining(rank, why) : answer_joining(said->second.why);
}

std::vector<StoreBoard::Answer> StoreBoard::fail_attempt(Attempt attempt, const Status& why) {
  Start& start = attempts_.at(attempt);
  if (start.failure) return {};
  start.failure = why;
  std::vector<Answer> answers;
  std::vector<RoundKey> keys;
  for (const auto& [key, round] : rounds_) {
    if (key.first == attempt) keys.push_back(key);
  }
  for (const RoundKey& key : keys) answer_round(key, why, answers);
  std::erase_if(watching_, [&](const auto& watching) {
    if (watching.second != attempt) return false;
    answers.push_back({watching.first, reply_of(why)});
    return true;
  });
  return answers;
}

std::vector<StoreBoard::Answer> StoreBoard::fail(Client client, const Request& request) {
  const Status why =
      admission_ ? error(Code::kPeerLost, "rank {} cannot start: {}", request.rank, request.value)
                 : Status(request.code, request.value);
  const Attempt attempt = attempt_of(client);
  if (attempt == 0) {
    auto answers = fail_joining(request.rank, why);
    answers.push_back({client, reply_of(Status::ok())});
    return answers;
  }
  const auto& earlier = attempts_.at(attempt).failure;
  if (earlier) return {{client, reply_of(*earlier)}};
  auto answers = fail_attempt(attempt, why);
  answers.push_back({client, reply_of(Status::ok())});
  return answers;
}

std::vector<StoreBoard::Answer> StoreBoard::watch(Client client) {
  const Attempt attempt = attempt_of(client);
  const auto found = attempts_.find(attempt);
  if (found == attempts_.end()) {
    return {{client, reply_of(error(Code::kInternal, "only a rank that has joined may watch"))}};
  }
  if (found->second.failure) return {{client, reply_of(*found->second.failure)}};
  watching_[client] = attempt;
  return {};
}

std::vector<StoreBoard::Answer> StoreBoard::leave(Client client) {
  const auto found = members_.find(client);
  if (found == members_.end()) return {};
  const Member member = found->second;
  members_.erase(found);
  watching_.erase(client);
  if (--attempts_.at(member.attempt).left == 0) {
    attempts_.erase(member.attempt);
    return {};
  }
  // Once all have started nobody waits any more, and nobody hears of this.
  return fail_attempt(member.attempt,
                      error(Code::kPeerLost, "rank {} ({}) left before all ranks had started",
                            member.rank, member.who));
}

std::vector<StoreBoard::Answer> StoreBoard::withdraw(Client client) {
  std::vector<Answer> answers;
  for (auto round = rounds_.begin(); round != rounds_.end();) {
    auto& entries = round->second.entries;
    const auto mine = std::find_if(entries.begin(), entries.end(), [&](const auto& entry) {
      return entry.second.client == client;
    });
    if (mine == entries.end()) {
      ++round;
      continue;
    }
    const int rank = mine->first;
    const Entry entry = mine->second;
    entries.erase(mine);
    round = entries.empty() ? rounds_.erase(round) : std::next(round);
    if (!entry.joins) continue;
    append(answers,
           fail_joining(rank, error(Code::kPeerLost, "rank {} ({}) ended while the ranks met", rank,
                                    entry.who)));
    break;  // A client joins one round at most, and others may be gone now.
  }
  return answers;
}

std::vector<StoreBoard::Answer> StoreBoard::forget(Client client) {
  std::erase_if(waiting_, [&](const Waiting& waiting) { return waiting.client == client; });
  watching_.erase(client);
  if (attendance_) attendance_->forget(client);
  auto answers = withdraw(client);
  append(answers, leave(client));
  if (admission_) append(answers, admitted(admission_->forget(client)));
  return answers;
}

std::vector<StoreBoard::Answer> StoreBoard::expire_round(const RoundKey& key) {
  Round& round = rounds_.at(key);
  std::vector<int> missing;
  for (int rank = 0; rank < round.size; ++rank) {
    if (round.entries.count(rank) == 0) missing.push_back(rank);
  }
  const Status why =
      error(Code::kTimeout, "{} of {} did not come", name_ranks(missing), round.size);
  std::vector<Answer> answers;
  std::optional<std::pair<int, std::string>> first;
  for (auto entry = round.entries.begin(); entry != round.entries.end();) {
    if (!entry->second.deadline.has_passed()) {
      ++entry;
      continue;
    }
    if (entry->second.joins && !first) first.emplace(entry->first, entry->second.who);
    if (entry->second.joins) heard_[entry->first] = last_failure_ + 1;
    answers.push_back({entry->second.client, reply_of(why)});
    entry = round.entries.erase(entry);
  }
  if (round.entries.empty()) rounds_.erase(key);
  if (key.first != 0) {
    append(answers, fail_attempt(key.first, why));
  } else if (first) {
    append(answers,
           fail_joining(first->first, error(Code::kTimeout, "rank {} ({}) waited no longer: {}",
                                            first->first, first->second, why.message())));
  }
  return answers;
}

std::vector<StoreBoard::Answer> StoreBoard::expire() {
  std::vector<Answer> answers;
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    if (!waiting.deadline.has_passed()) return false;
    answers.push_back(
        {waiting.client,
         reply_of(error(Code::kTimeout, "timed out waiting for the key '{}'", waiting.key))});
    return true;
  });
  std::vector<RoundKey> due;
  for (const auto& [key, round] : rounds_) {
    const bool is_due =
        std::any_of(round.entries.begin(), round.entries.end(),
                    [](const auto& entry) { return entry.second.deadline.has_passed(); });
    if (is_due) due.push_back(key);
  }
  for (const RoundKey& key : due) {
    // An earlier one of them may have ended this one.
    if (rounds_.count(key) != 0) append(answers, expire_round(key));
  }
  if (admission_) append(answers, admitted(admission_->expire()));
  return answers;
}

Deadline StoreBoard::next_deadline() const {
  Deadline next = admission_ ? admission_->next_deadline() : kForever;
  for (const Waiting& waiting : waiting_) next = next.earlier(waiting.deadline);
  for (const auto& [key, round] : rounds_) {
    for (const auto& [rank, entry] : round.entries) next = next.earlier(entry.deadline);
  }
  return next;
}

}  // namespace hvd
