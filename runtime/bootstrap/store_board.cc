// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/store_board.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "bootstrap/store.h"

namespace hvd {

using store_message::Reply;
using store_message::Request;
using store_message::Verb;

std::optional<Reply> StoreBoard::enter(const Request& request) {
  Round& round = rounds_[request.key];
  if (round.size == 0) round.size = request.size;
  if (round.size != request.size) {
    return Reply{.code = Code::kMismatch,
                 .text = format_text("rank {} believes in a world of {} ranks, others in {}",
                                     request.rank, request.size, round.size)};
  }
  if (!round.values.emplace(request.rank, request.value).second) {
    return Reply{.code = Code::kMismatch,
                 .text = format_text("rank {} came twice in round '{}': two processes hold the "
                                     "same rank; check how the job was launched",
                                     request.rank, request.key)};
  }
  return std::nullopt;
}

std::vector<StoreBoard::Answer> StoreBoard::handle(Client client, Request request) {
  if (request.verb == Verb::kSet) {
    values_.insert_or_assign(request.key, std::move(request.value));
    auto answers = settle(request.key);
    answers.push_back({.client = client, .reply = {.code = Code::kOk, .text = {}}});
    return answers;
  }
  if (request.verb == Verb::kGather) {
    if (auto refusal = enter(request)) return {{.client = client, .reply = std::move(*refusal)}};
  }
  const auto wait = std::chrono::milliseconds(
      std::min<std::uint64_t>(request.timeout_ms, 1000ULL * 3600 * 24 * 365));
  parked_.push_back({.client = client,
                     .gathers = request.verb == Verb::kGather,
                     .key = request.key,
                     .deadline = Deadline::after(wait)});
  return settle(request.key);
}

std::optional<Reply> StoreBoard::reply_to(const Parked& parked) const {
  if (!parked.gathers) {
    const auto found = values_.find(parked.key);
    if (found == values_.end()) return std::nullopt;
    return Reply{.code = Code::kOk, .text = {}, .values = {found->second}};
  }
  const Round& round = rounds_.at(parked.key);
  if (static_cast<int>(round.values.size()) != round.size) return std::nullopt;
  Reply reply;
  for (const auto& [rank, value] : round.values) reply.values.push_back(value);
  return reply;
}

std::vector<StoreBoard::Answer> StoreBoard::settle(const std::string& key) {
  std::vector<Answer> answers;
  std::erase_if(parked_, [&](const Parked& parked) {
    if (parked.key != key) return false;
    auto reply = reply_to(parked);
    if (!reply) return false;
    answers.push_back({.client = parked.client, .reply = std::move(*reply)});
    return true;
  });
  // A round that is over may be held again: a program may shut down and start anew.
  const auto round = rounds_.find(key);
  if (round != rounds_.end() &&
      static_cast<int>(round->second.values.size()) == round->second.size) {
    rounds_.erase(round);
  }
  return answers;
}

Reply StoreBoard::timeout_of(const Parked& parked) const {
  if (!parked.gathers) {
    return {.code = Code::kTimeout,
            .text = format_text("timed out waiting for the key '{}'", parked.key)};
  }
  const Round& round = rounds_.at(parked.key);
  std::vector<int> missing;
  for (int rank = 0; rank < round.size; ++rank) {
    if (round.values.count(rank) == 0) missing.push_back(rank);
  }
  return {.code = Code::kTimeout,
          .text = format_text("{} of {} did not come", name_ranks(missing), round.size)};
}

std::vector<StoreBoard::Answer> StoreBoard::expire() {
  std::vector<Answer> answers;
  std::erase_if(parked_, [&](const Parked& parked) {
    if (!parked.deadline.has_passed()) return false;
    answers.push_back({.client = parked.client, .reply = timeout_of(parked)});
    return true;
  });
  return answers;
}

Deadline StoreBoard::next_deadline() const {
  Deadline next = kForever;
  for (const Parked& parked : parked_) next = next.earlier(parked.deadline);
  return next;
}

void StoreBoard::forget(Client client) {
  std::erase_if(parked_, [&](const Parked& parked) { return parked.client == client; });
}

}  // namespace hvd
