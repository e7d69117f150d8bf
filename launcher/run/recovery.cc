// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/recovery.h"

#include <utility>

#include "base/format.h"

namespace hvd {

Recovery::Recovery(Options options) : options_(std::move(options)) {
  for (int process = 0; process < options_.size; ++process) ranks_[process] = process;
  for (int process = 0; process < processes(); ++process) places_.push_back(process);
}

void Recovery::came(const ProcessCame& came) {
  options_.hosts[static_cast<std::size_t>(came.process)] = came.host;
}

std::string Recovery::name_of(int process) const {
  const auto rank = ranks_.find(process);
  return rank == ranks_.end() ? format_text("spare {}", process)
                              : format_text("rank {}", rank->second);
}

std::string Recovery::place_of(int process, const std::string& name) const {
  const std::string& host = host_of(process);
  return host.empty() ? name : format_text("{} on host {}", name, host);
}

std::vector<int> Recovery::spares() const {
  std::vector<int> found;
  for (int process = 0; process < static_cast<int>(options_.hosts.size()); ++process) {
    if (lives(process) && !ranks_.contains(process)) found.push_back(process);
  }
  return found;
}

std::string Recovery::successor(const End& end) const {
  if (end.successor) return format_text("it is started again as {}", *end.successor);
  const std::string why = end.why_not.empty() ? "" : "; " + end.why_not;
  if (living() >= options_.size) return "a spare takes its place" + why;
  return format_text("{} rank{} on{}", living(), living() == 1 ? " goes" : "s go", why);
}

bool Recovery::can_spare(int process) const {
  return !has_finished_ && !ranks_.empty() && (ranks_.size() > 1 || !ranks_.contains(process));
}

int Recovery::add(int lost) {
  options_.hosts.push_back(host_of(lost));
  places_.push_back(place(lost));
  return processes() - 1;
}

std::optional<std::string> Recovery::failed(const End& end, Clock::time_point now) {
  const std::string name = name_of(end.process);
  const bool was_rank = ranks_.erase(end.process) != 0;
  gone_.insert(end.process);
  awaited_.erase(end.process);
  waiting_.erase(end.process);
  const std::string loss = format_text("{} was lost: {}", place_of(end.process, name), end.how);
  if (was_rank && first_loss_.empty()) first_loss_ = loss;
  const bool is_short = living() < options_.min_size;
  if (was_rank && (has_finished_ || ranks_.empty() || is_short)) return std::nullopt;
  if (was_rank && !unhealed_) {
    unhealed_ = Loss{end.process, end.code, loss + "; the others ended without it"};
    lost_at_ = now;
  }
  // Of spares there may be too few, as long as nobody needs one.
  if (!was_rank && unhealed_ && is_short) return std::nullopt;
  if (was_rank || end.successor) return format_text("{}; {}", loss, successor(end));
  return end.why_not.empty() ? loss : format_text("{}; {}", loss, end.why_not);
}

void Recovery::finished(int process) {
  has_finished_ = ranks_.erase(process) != 0 || has_finished_;
  gone_.insert(process);
  awaited_.erase(process);
}

std::string Recovery::begun(const Membership& membership, Clock::time_point now) {
  std::string changes;
  std::map<int, int> by_process;
  const std::size_t size = membership.members.size();
  for (std::size_t i = 0; i < size; ++i) {
    const Membership::Member& member = membership.members[i];
    const int rank = static_cast<int>(i);
    waiting_.erase(member.process);
    if (!lives(member.process)) continue;
    const auto before = ranks_.find(member.process);
    if (before == ranks_.end()) {
      changes += format_text("; rank {} is spare {} now", rank, member.process);
    } else if (before->second != rank) {
      changes += format_text("; rank {} is what was rank {}", rank, before->second);
    }
    by_process[member.process] = rank;
  }
  ranks_ = std::move(by_process);
  awaited_.clear();
  const std::string ranks = format_text("{} rank{}", size, size == 1 ? "" : "s");
  const bool has_healed = std::exchange(unhealed_, std::nullopt).has_value();
  if (size == static_cast<std::size_t>(options_.size)) first_loss_.clear();
  if (!has_healed && changes.empty()) return {};
  if (!has_healed) return format_text("membership {}: {}{}", membership.epoch, ranks, changes);
  return format_text("membership {}: {} again, {} ms after the loss{}", membership.epoch, ranks,
                     std::chrono::duration_cast<std::chrono::milliseconds>(now - lost_at_).count(),
                     changes);
}

void Recovery::entered(const ProcessEntered& entered, Clock::time_point now) {
  waiting_.insert(entered.process);
  awaited_.erase(entered.process);
  const auto lost = entered.lost;
  if (!lost || !lives(*lost) || waiting_.contains(*lost)) return;
  awaited_.try_emplace(*lost, now + options_.patience);
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
                     living() == 1 ? " is" : "es are", options_.min_size,
                     options_.min_size == 1 ? "" : "s");
}

std::string Recovery::describe_failure(const std::string& name, int process,
                                       const std::string& how) const {
  return format_text("{} failed: {}; the job ends, as {}", place_of(process, name), how,
                     shortage());
}

std::string Recovery::describe_overdue(int process) const {
  return format_text(
      "{} was lost by others and lives on (stopped, or hung): it is killed, so that they need not "
      "wait for it",
      place_of(process, name_of(process)));
}

}  // namespace hvd
