// SPDX-License-Identifier: Apache-2.0
#include "doubles/nccl/rounds.h"

#include <algorithm>
#include <cstring>

#include "doubles/nccl/elements.h"

namespace double_nccl {
namespace {

std::string rank_text(int rank) { return "rank " + std::to_string(rank); }

Reply result_of(int rank, const Frame& asked, Bytes payload) {
  Frame frame;
  frame.kind = FrameKind::kResult;
  frame.ticket = asked.ticket;
  frame.bytes = payload.size();
  return {rank, frame, std::move(payload)};
}

bool agree(const Operation& a, const Operation& b) {
  if (a.kind != b.kind) return false;
  if (a.kind == Kind::kSplit) return true;  // colors and keys are each rank's own
  if (a.kind == Kind::kWindow && a.key != b.key) return false;
  // NCCL binds registered memory of a node with steps between the ranks that find theirs.
  if (a.registered != b.registered) return false;
  return a.count == b.count && a.dtype == b.dtype && a.fold == b.fold && a.root == b.root;
}

}  // namespace

std::vector<Reply> Rounds::add(int rank, const Frame& frame, Bytes payload) {
  const Operation& operation = frame.operation;
  if (operation.kind == Kind::kSend) {
    pairs_[{rank, operation.root}].sends.push_back({frame, std::move(payload)});
    return meet(rank, operation.root);
  }
  if (operation.kind == Kind::kRecv) {
    pairs_[{operation.root, rank}].receives.push_back({frame, {}});
    return meet(operation.root, rank);
  }
  const bool is_of_host = operation.kind == Kind::kSplit || operation.kind == Kind::kWindow;
  Sequence& sequence = is_of_host ? of_hosts_ : of_streams_;
  const std::size_t index =
      static_cast<std::size_t>(sequence.done[static_cast<std::size_t>(rank)]++ - sequence.first);
  if (index == sequence.rounds.size()) {
    sequence.rounds.emplace_back();
    sequence.rounds.back().entries.resize(static_cast<std::size_t>(size_));
  }
  Round& round = sequence.rounds[index];
  compare(rank, operation, round);
  round.entries[static_cast<std::size_t>(rank)] = Entry{frame, std::move(payload)};
  check_leavers(round);
  if (!complaint_.empty() || ++round.arrived < size_) return {};
  // A rank comes with its rounds in order, so that only the oldest can be complete.
  std::vector<Reply> replies = finish(sequence.rounds.front());
  sequence.rounds.pop_front();
  ++sequence.first;
  return replies;
}

std::vector<Reply> Rounds::leave(int rank) {
  leavers_.push_back(rank);
  for (const Sequence* const sequence : {&of_streams_, &of_hosts_}) {
    for (const Round& round : sequence->rounds) check_leavers(round);
  }
  return {};
}

std::vector<int> Rounds::awaited() const {
  const Sequence& begun = of_streams_.rounds.empty() ? of_hosts_ : of_streams_;
  std::vector<int> ranks;
  for (int rank = 0; !begun.rounds.empty() && rank < size_; ++rank) {
    if (!begun.rounds.front().entries[static_cast<std::size_t>(rank)]) ranks.push_back(rank);
  }
  return ranks;
}

void Rounds::compare(int rank, const Operation& mine, const Round& round) {
  for (int other = 0; other < size_; ++other) {
    const auto& entry = round.entries[static_cast<std::size_t>(other)];
    if (!entry || agree(mine, entry->frame.operation)) continue;
    complaint_ = rank_text(rank) + " called " + describe(mine) + " where " + rank_text(other) +
                 " called " + describe(entry->frame.operation);
    return;
  }
}

void Rounds::check_leavers(const Round& round) {
  for (const int rank : leavers_) {
    if (round.entries[static_cast<std::size_t>(rank)]) continue;
    for (int other = 0; other < size_; ++other) {
      const auto& entry = round.entries[static_cast<std::size_t>(other)];
      if (!entry) continue;
      complaint_ = rank_text(rank) + " destroyed its communicator where " + rank_text(other) +
                   " called " + describe(entry->frame.operation);
    }
  }
}

std::vector<Reply> Rounds::meet(int from, int to) {
  Pair& pair = pairs_[{from, to}];
  if (pair.sends.empty() || pair.receives.empty()) return {};
  Entry send = std::move(pair.sends.front());
  const Entry receive = std::move(pair.receives.front());
  pair.sends.pop_front();
  pair.receives.pop_front();
  const Operation& given = send.frame.operation;
  const Operation& wanted = receive.frame.operation;
  if (given.count * size_of(given.dtype) != wanted.count * size_of(wanted.dtype)) {
    complaint_ = rank_text(to) + " called " + describe(wanted) + " where " + rank_text(from) +
                 " called " + describe(given);
    return {};
  }
  std::vector<Reply> replies;
  replies.push_back(result_of(from, send.frame, {}));
  replies.push_back(result_of(to, receive.frame, std::move(send.payload)));
  return replies;
}

Bytes Rounds::folded(Round& round) const {
  const Operation operation = round.entries[0]->frame.operation;
  Bytes sum;
  for (int rank = 0; rank < size_; ++rank) {
    Entry& entry = *round.entries[static_cast<std::size_t>(rank)];
    if (operation.fold == Fold::kScaledSum) {
      scale(entry.payload, operation.dtype, entry.frame.operation.scalar);
    }
    if (rank == 0) {
      sum = std::move(entry.payload);
    } else {
      fold_into(sum, entry.payload, operation.dtype, operation.fold);
    }
  }
  if (operation.fold == Fold::kAverage) divide(sum, operation.dtype, size_);
  return sum;
}

std::vector<Reply> Rounds::finish(Round& round) const {
  const Operation operation = round.entries[0]->frame.operation;
  if (operation.kind == Kind::kSplit) return split(round);
  const auto root = static_cast<std::size_t>(operation.root);
  Bytes whole;
  if (operation.kind == Kind::kBroadcast) {
    whole = std::move(round.entries[root]->payload);
  } else if (operation.kind == Kind::kAllGather) {
    for (const auto& entry : round.entries) {
      whole.insert(whole.end(), entry->payload.begin(), entry->payload.end());
    }
  } else if (operation.kind != Kind::kWindow) {
    whole = folded(round);
  }
  std::vector<Reply> replies;
  for (int rank = 0; rank < size_; ++rank) {
    Bytes part = whole;
    if (operation.kind == Kind::kReduce && rank != operation.root) part.clear();
    if (operation.kind == Kind::kReduceScatter) {
      const std::size_t bytes = whole.size() / static_cast<std::size_t>(size_);
      const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(bytes) * rank;
      part.assign(begin, begin + static_cast<std::ptrdiff_t>(bytes));
    }
    replies.push_back(
        result_of(rank, round.entries[static_cast<std::size_t>(rank)]->frame, std::move(part)));
  }
  return replies;
}

std::vector<Reply> Rounds::split(const Round& round) const {
  std::map<int, std::vector<std::pair<int, int>>> members;  // color -> (key, rank)
  for (int rank = 0; rank < size_; ++rank) {
    const Operation& operation = round.entries[static_cast<std::size_t>(rank)]->frame.operation;
    members[operation.root].emplace_back(operation.key, rank);
  }
  std::vector<Reply> replies;
  for (auto& [color, ranks] : members) {
    std::sort(ranks.begin(), ranks.end());
    Child child;
    if (color != NCCL_SPLIT_NOCOLOR) {
      child.id = make_star_();
      child.size = static_cast<int>(ranks.size());
      child.rank = 0;
    }
    for (const auto& [key, rank] : ranks) {
      Bytes payload(sizeof(child));
      std::memcpy(payload.data(), &child, sizeof(child));
      const Frame& asked = round.entries[static_cast<std::size_t>(rank)]->frame;
      replies.push_back(result_of(rank, asked, std::move(payload)));
      ++child.rank;
    }
  }
  return replies;
}

}  // namespace double_nccl
