// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/recovery.h"

#include <algorithm>
#include <utility>

#include "base/format.h"

namespace hvd {
namespace {

/// For a process that was killed to end.
constexpr std::chrono::seconds kKillTime{10};

}  // namespace

Recovery::Recovery(Options options)
    : options_(std::move(options)), spare_count_(processes() - options_.size - options_.reserve) {
  for (int process = 0; process < options_.size; ++process) ranks_[process] = process;
  for (int process = 0; process < processes(); ++process) places_.push_back(process);
  for (int i = 0; i < options_.reserve; ++i) gone_.insert(processes() - 1 - i);
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

std::vector<int> Recovery::ranks() const {
  std::vector<int> found;
  for (const auto& [process, rank] : ranks_) found.push_back(process);
  return found;
}

std::vector<int> Recovery::spares() const {
  std::vector<int> found;
  for (int process = 0; process < static_cast<int>(options_.hosts.size()); ++process) {
    if (lives(process) && !ranks_.contains(process)) found.push_back(process);
  }
  return found;
}

std::vector<int> Recovery::free_places(int count) const {
  std::map<int, int> last;  // By place: the last process that was there.
  std::set<int> taken;
  for (int process = 0; process < processes(); ++process) {
    last[place(process)] = process;
    if (lives(process)) taken.insert(place(process));
  }
  std::vector<int> found;
  for (const auto& [place, process] : last) {
    if (static_cast<int>(found.size()) == count) break;
    if (!taken.contains(place)) found.push_back(process);
  }
  return found;
}

std::vector<int> Recovery::surplus() const {
  const int count = -missing();
  std::vector<int> found = spares();
  std::erase_if(found, [&](int spare) { return is_dismissed(spare); });
  std::reverse(found.begin(), found.end());
  found.resize(static_cast<std::size_t>(std::clamp(count, 0, static_cast<int>(found.size()))));
  return found;
}

std::string Recovery::successor(const End& end) const {
  if (end.successor) return format_text("it is started again as {}", *end.successor);
  const std::string why = end.why_not.empty() ? "" : "; " + end.why_not;
  if (living() >= options_.size) return "a spare takes its place" + why;
  return format_text("{} rank{} on{}", living(), living() == 1 ? " goes" : "s go", why);
}

bool Recovery::can_spare(int process) const {
  return finished_.empty() && !ranks_.empty() && (ranks_.size() > 1 || !ranks_.contains(process));
}

int Recovery::add(int lost) {
  options_.hosts.push_back(host_of(lost));
  places_.push_back(place(lost));
  return processes() - 1;
}

int Recovery::add_on(const std::string& host) {
  options_.hosts.push_back(host);
  places_.push_back(processes() - 1);
  return processes() - 1;
}

bool Recovery::is_used(const std::string& host) const {
  for (int process = 0; process < processes(); ++process) {
    if (lives(process) && host_of(process) == host) return true;
  }
  return false;
}

bool Recovery::knows_hosts() const { return !is_used(""); }

std::optional<std::string> Recovery::failed(const End& end, Clock::time_point now) {
  const std::string name = name_of(end.process);
  const bool was_rank = ranks_.erase(end.process) != 0;
  gone_.insert(end.process);
  dismissed_.erase(end.process);
  condemned_.erase(end.process);
  waiting_.erase(end.process);
  const std::string loss = format_text("{} was lost: {}", place_of(end.process, name), end.how);
  if (was_rank && first_loss_.empty()) first_loss_ = loss;
  const bool is_short = living() < options_.min_size;
  if (was_rank && (!finished_.empty() || ranks_.empty() || is_short)) return std::nullopt;
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
  const auto rank = ranks_.find(process);
  if (rank != ranks_.end()) {
    finished_.insert(*rank);
    ranks_.erase(rank);
  }
  gone_.insert(process);
  dismissed_.erase(process);
  condemned_.erase(process);
}

std::optional<int> Recovery::take_refuted() {
  for (const auto& [process, rank] : finished_) {
    if (!lost_.contains(process)) continue;
    const int refuted = process;
    ranks_[refuted] = rank;
    finished_.erase(refuted);
    return refuted;
  }
  return std::nullopt;
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
      changes += format_text("; rank {} is process {} now", rank, member.process);
    } else if (before->second != rank) {
      changes += format_text("; rank {} is what was rank {}", rank, before->second);
    }
    by_process[member.process] = rank;
  }
  ranks_ = std::move(by_process);
  due_.reset();
  finished_.clear();
  lost_.clear();
  has_begun_ = true;
  const std::string ranks = format_text("{} rank{}", size, size == 1 ? "" : "s");
  const bool has_healed = std::exchange(unhealed_, std::nullopt).has_value();
  if (size == static_cast<std::size_t>(options_.size)) first_loss_.clear();
  if (!has_healed && changes.empty()) return {};
  if (!has_healed) return format_text("membership {}: {}{}", membership.epoch, ranks, changes);
  return format_text("membership {}: {} again, {} ms after hvdrun knew{}", membership.epoch, ranks,
                     std::chrono::duration_cast<std::chrono::milliseconds>(now - lost_at_).count(),
                     changes);
}

void Recovery::entered(const ProcessEntered& entered, Clock::time_point now) {
  waiting_.insert(entered.process);
  if (entered.lost && *entered.lost != entered.process) lost_.insert(*entered.lost);
  if (has_begun_ && ranks_.contains(entered.process) && !due_) due_ = now + options_.patience;
}

std::vector<int> Recovery::overdue(Clock::time_point now) {
  std::vector<int> due;
  if (!due_ || *due_ > now) return due;
  // Spares that still start, too: the others need one, or would not wait any more.
  for (int process = 0; process < processes(); ++process) {
    if (!lives(process) || waiting_.contains(process) || condemned_.contains(process)) continue;
    due.push_back(process);
    condemned_[process] = now + kKillTime;
  }
  due_ = now + options_.patience;  // Those that start in their place may not come either.
  return due;
}

std::vector<int> Recovery::unkillable(Clock::time_point now) {
  std::vector<int> found;
  for (auto condemned = condemned_.begin(); condemned != condemned_.end();) {
    if (condemned->second > now) {
      ++condemned;
      continue;
    }
    found.push_back(condemned->first);
    condemned = condemned_.erase(condemned);
  }
  return found;
}

Deadline Recovery::next() const {
  Deadline next = due_ ? Deadline::at(*due_) : kForever;
  for (const auto& [process, time] : condemned_) next = next.earlier(Deadline::at(time));
  return next;
}

std::string Recovery::shortage() const {
  if (!finished_.empty()) {
    const auto& [process, rank] = *finished_.begin();
    return format_text("{} has come to the end of its program already",
                       place_of(process, format_text("rank {}", rank)));
  }
  if (ranks_.empty()) return "no rank is left that has the state of training";
  return format_text("{} process{} left, and it needs {} rank{}", living(),
                     living() == 1 ? " is" : "es are", options_.min_size,
                     options_.min_size == 1 ? "" : "s");
}

std::string Recovery::describe_failure(const std::string& name, const End& end) const {
  const std::string why_not = end.why_not.empty() ? "" : "; " + end.why_not;
  return format_text("{} failed: {}{}; the job ends, as {}", place_of(end.process, name), end.how,
                     why_not, shortage());
}

std::string Recovery::describe_overdue(int process) const {
  return format_text(
      "{} has not come back within {} s after others did (stopped, hung, or at work): it is "
      "killed, "
      "so that they need not wait for it",
      place_of(process, name_of(process)), options_.patience.count() / 1000);
}

}  // namespace hvd
