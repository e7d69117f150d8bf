// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/recovery.h"

#include <utility>

#include "base/format.h"

namespace hvd {

Recovery::Recovery(int size, int min_size, std::vector<std::string> hosts)
    : size_(size), min_size_(min_size), hosts_(std::move(hosts)) {
  for (int process = 0; process < size_; ++process) {
    ranks_[process] = process;
    processes_.push_back(process);
  }
}

std::string Recovery::name_of(int process) const {
  const auto rank = ranks_.find(process);
  return rank == ranks_.end() ? format_text("spare {}", process)
                              : format_text("rank {}", rank->second);
}

std::optional<int> Recovery::process_of(int rank) const {
  if (rank < 0 || static_cast<std::size_t>(rank) >= processes_.size()) return std::nullopt;
  return processes_[static_cast<std::size_t>(rank)];
}

std::string Recovery::successor() const {
  const int spares = living() - static_cast<int>(ranks_.size());
  if (spares > 0) return "a spare takes its place";
  return format_text("{} rank{} on", ranks_.size(), ranks_.size() == 1 ? " goes" : "s go");
}

std::optional<std::string> Recovery::failed(int process, const std::string& how,
                                            Clock::time_point now) {
  const std::string name = name_of(process);
  const bool was_rank = ranks_.erase(process) != 0;
  gone_.insert(process);
  awaited_.erase(process);
  const std::string loss = format_text("{} on host {} was lost: {}", name, host_of(process), how);
  if (was_rank && first_loss_.empty()) first_loss_ = loss;
  if (was_rank && (has_finished_ || ranks_.empty() || living() < min_size_)) return std::nullopt;
  if (!was_rank) return loss;
  if (!lost_at_) lost_at_ = now;
  return format_text("{}; {}", loss, successor());
}

void Recovery::finished(int process) {
  has_finished_ = ranks_.erase(process) != 0 || has_finished_;
  gone_.insert(process);
  awaited_.erase(process);
}

std::string Recovery::begun(const Membership& membership, Clock::time_point now) {
  std::string changes;
  std::map<int, int> ranks;
  processes_.clear();
  for (const Membership::Member& member : membership.members) {
    const int rank = static_cast<int>(processes_.size());
    processes_.push_back(member.process);
    if (gone_.contains(member.process)) continue;
    const auto before = ranks_.find(member.process);
    if (before == ranks_.end()) {
      changes += format_text("; rank {} is spare {} now", rank, member.process);
    } else if (before->second != rank) {
      changes += format_text("; rank {} is what was rank {}", rank, before->second);
    }
    ranks[member.process] = rank;
  }
  ranks_ = std::move(ranks);
  awaited_.clear();
  const auto lost_at = std::exchange(lost_at_, std::nullopt);
  if (!lost_at) return {};
  if (processes_.size() == static_cast<std::size_t>(size_)) first_loss_.clear();
  return format_text("membership {}: {} rank{} again, {} ms after the loss{}", membership.epoch,
                     processes_.size(), processes_.size() == 1 ? "" : "s",
                     std::chrono::duration_cast<std::chrono::milliseconds>(now - *lost_at).count(),
                     changes);
}

void Recovery::loses(int by, int lost, Clock::time_point now) {
  const auto process = process_of(lost);
  if (by == lost || !process || gone_.contains(*process)) return;
  awaited_.try_emplace(*process, now + kPatience);
}

std::vector<int> Recovery::overdue(Clock::time_point now) {
  std::vector<int> due;
  for (auto awaited = awaited_.begin(); awaited != awaited_.end();) {
    if (awaited->second > now) {
      ++awaited;
      continue;
    }
    due.push_back(awaited->first);
    awaited = awaited_.erase(awaited);
  }
  return due;
}

Deadline Recovery::next() const {
  Deadline next = kForever;
  for (const auto& [process, time] : awaited_) next = next.earlier(Deadline::at(time));
  return next;
}

std::string Recovery::shortage() const {
  if (has_finished_) return "a rank has come to the end of its program already";
  if (ranks_.empty()) return "no rank is left that has the state of training";
  return format_text("{} process{} left, and it needs {} rank{}", living(),
                     living() == 1 ? " is" : "es are", min_size_, min_size_ == 1 ? "" : "s");
}

std::string Recovery::describe_failure(const std::string& name, int process,
                                       const std::string& how) const {
  return format_text("{} on host {} failed: {}; the job ends, as {}", name, host_of(process), how,
                     shortage());
}

std::string Recovery::describe_overdue(int process) const {
  return format_text(
      "{} on host {} was lost by others and lives on (stopped, or hung): it is killed, so that "
      "they need not wait for it",
      name_of(process), host_of(process));
}

}  // namespace hvd
