// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "bootstrap/store_board.h"

namespace hvd {

using store_message::Verb;

struct Shown {
  std::string operator()(const Membership& membership) const {
    std::string text = std::to_string(membership.epoch) + ":";
    for (const auto& member : membership.members) text += " " + std::to_string(member.process);
    return text;
  }
  std::string operator()(const ProcessEntered& entered) const {
    const std::string text = std::to_string(entered.process) + " entered";
    return entered.lost ? text + " without " + std::to_string(*entered.lost) : text;
  }
  std::string operator()(const ProcessCame& came) const {
    return std::to_string(came.process) + " came to " + came.host;
  }
  std::string operator()(const ProcessEnded& ended) const {
    return std::to_string(ended.process) + " ended with " + std::to_string(ended.status) +
           ended.why;
  }
  std::string operator()(const ProcessGone& gone) const {
    return std::to_string(gone.process) + " is gone";
  }
};

/// The answers of a board by client, as "code text|value|value".
class Talk {
 public:
  explicit Talk(const std::optional<RosterPlan>& plan = std::nullopt) : board_(plan) {}

  /// As a process of an elastic job.
  void enter(StoreBoard::Client client, int process, std::uint64_t timeout_ms = 60'000,
             const std::string& who = "") {
    take(board_.handle(client, {.verb = Verb::kEnter,
                                .value = "jz1",
                                .who = who.empty() ? "process " + std::to_string(process) : who,
                                .rank = process,
                                .size = process + 1,
                                .timeout_ms = timeout_ms}));
  }
  /// As a rank of the membership `epoch` that has lost another one.
  void come_back(StoreBoard::Client client, int process, std::uint64_t epoch, int lost) {
    take(board_.handle(client, {.verb = Verb::kEnter,
                                .value = "jz1",
                                .who = "process " + std::to_string(process),
                                .rank = process,
                                .size = process + 1,
                                .timeout_ms = 60'000,
                                .epoch = epoch,
                                .status = lost}));
  }
  /// As the hvdrun beside a process.
  void attend(StoreBoard::Client client, int process, const std::string& host) {
    take(board_.handle(client,
                       {.verb = Verb::kAttend, .key = host, .rank = process, .size = process + 1}));
  }
  void say_ended(StoreBoard::Client client, int process, int status, const std::string& why = "") {
    take(board_.handle(client, {.verb = Verb::kEnded,
                                .value = why,
                                .rank = process,
                                .size = process + 1,
                                .status = status}));
  }
  void aim_at(int size) { take(board_.aim_at(size)); }
  void await_newcomers(StoreBoard::Client client) {
    take(board_.handle(client, {.verb = Verb::kAwaitNewcomers}));
  }
  void kill(int process) { take(board_.kill(process)); }
  void answer_end(int process, int successor) { take(board_.answer_end(process, successor)); }
  void add_process() { board_.add_process(); }
  /// What the owner has heard since the last question: "0 came to jz1; 0 entered; 1: 0 1".
  std::string events() {
    std::string text;
    for (const ElasticEvent& event : board_.take_events()) {
      text += (text.empty() ? "" : "; ") + std::visit(Shown(), event);
    }
    return text;
  }
  /// As a rank of that membership.
  void join_in(std::uint64_t epoch, StoreBoard::Client client, int rank, int size) {
    take(board_.handle(client, {.verb = Verb::kJoin,
                                .key = "join",
                                .value = "v" + std::to_string(rank),
                                .who = "rank " + std::to_string(rank),
                                .rank = rank,
                                .size = size,
                                .timeout_ms = 60'000,
                                .epoch = epoch}));
  }
  void end_process(int process, bool well) { take(board_.rank_ended(process, Status(), well)); }
  void end_job(const std::string& why) { take(board_.end_job(Status(Code::kAborted, why))); }

  /// Joins as a rank; the client is of this try alone.
  void join(StoreBoard::Client client, int rank, int size, std::uint64_t timeout_ms = 60'000) {
    take(board_.handle(client, {.verb = Verb::kJoin,
                                .key = "join",
                                .value = "v" + std::to_string(rank),
                                .who = "process " + std::to_string(rank),
                                .rank = rank,
                                .size = size,
                                .timeout_ms = timeout_ms}));
  }
  void gather(StoreBoard::Client client, int rank, int size, std::uint64_t timeout_ms = 60'000) {
    take(board_.handle(client, {.verb = Verb::kGather,
                                .key = "shared",
                                .value = "s" + std::to_string(client),
                                .rank = rank,
                                .size = size,
                                .timeout_ms = timeout_ms}));
  }
  void fail(StoreBoard::Client client, int rank, int size, const std::string& why) {
    take(board_.handle(
        client,
        {.verb = Verb::kFail, .value = why, .code = Code::kSystem, .rank = rank, .size = size}));
  }
  void watch(StoreBoard::Client client) { take(board_.handle(client, {.verb = Verb::kWatch})); }
  void forget(StoreBoard::Client client) { take(board_.forget(client)); }
  void expire() { take(board_.expire()); }
  void end(int rank, const std::string& why) {
    take(board_.rank_ended(rank, Status(Code::kPeerLost, why)));
  }
  void exhaust(const std::string& why) { take(board_.fail_joining(Status(Code::kSystem, why))); }

  /// What the client was answered since the last question; "" for nothing.
  std::string heard(StoreBoard::Client client) {
    std::string text = std::move(heard_[client]);
    heard_[client].clear();
    return text;
  }

 private:
  void take(const std::vector<StoreBoard::Answer>& answers) {
    for (const auto& [client, reply] : answers) {
      std::string& text = heard_[client];
      if (!text.empty()) text += "; ";
      text += std::string(code_name(reply.code)) + " " + reply.text;
      for (const std::string& value : reply.values) text += "|" + shown(value);
    }
  }

  /// A place as "rank 0 of 2 in 1"; another value as it is.
  static std::string shown(const std::string& value) {
    const auto place = store_message::decode_place(value);
    if (!place.is_ok()) return value;
    return "rank " + std::to_string(place.value().rank) + " of " +
           std::to_string(place.value().size) + " in " + std::to_string(place.value().epoch);
  }

  StoreBoard board_;
  std::map<StoreBoard::Client, std::string> heard_;
};

inline std::string ok() { return std::string(code_name(Code::kOk)) + " "; }

inline bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace hvd
