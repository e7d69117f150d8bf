// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/output_printer.h"

#include <algorithm>
#include <chrono>
#include <ctime>

#include "base/format.h"
#include "topology/cpu_set.h"

namespace hvd {
namespace {

constexpr std::chrono::milliseconds kFoldLimit{100};
constexpr std::size_t kMostWaiting = 256;
constexpr std::size_t kRecent = 20;

std::string time_of_day() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  return format_text("{:02}:{:02}:{:02}.{:03} ", parts.tm_hour, parts.tm_min, parts.tm_sec, ms);
}

/// "[3] ", or "[0-3,5] " where several said the same.
std::string prefix_of(const std::vector<std::pair<int, int>>& speakers) {
  CpuSet ranks;
  for (const auto& [source, rank] : speakers) ranks.push_back(rank);
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks.front() == kNoRank ? "" : format_text("[{}] ", format_cpu_set(ranks));
}

}  // namespace

std::string OutputPrinter::print(int source, const std::vector<OutputLine>& lines,
                                 Clock::time_point now) {
  std::string out;
  for (const OutputLine& line : lines) {
    if (style_.is_raw()) {
      out += line.text;
      continue;
    }
    if (is_folded() && fold(source, line)) continue;
    waiting_.push_back({{{source, line.rank}},
                        line,
                        style_.timestamp ? time_of_day() : "",
                        now + (is_folded() ? kFoldLimit : Clock::duration::zero())});
    last_[line.rank] = first_ + waiting_.size();
  }
  if (!out.empty()) end_ = out.back();
  return out + advance(now);
}

/// Finds an equal line that waits, later than all that this rank has said; false: there is none.
bool OutputPrinter::fold(int source, const OutputLine& line) {
  if (line.continues || line.is_open || line.rank == kNoRank) return false;
  const std::size_t from = std::max(last_[line.rank], first_);
  for (std::size_t i = from - first_; i < waiting_.size(); ++i) {
    Waiting& waiting = waiting_[i];
    const OutputLine& there = waiting.line;
    if (there.continues || there.is_open || there.rank == kNoRank || there.text != line.text) {
      continue;
    }
    waiting.speakers.emplace_back(source, line.rank);
    last_[line.rank] = first_ + i + 1;
    return true;
  }
  return false;
}

std::string OutputPrinter::advance(Clock::time_point now) {
  std::string out;
  while (!waiting_.empty()) {
    const Waiting& first = waiting_.front();
    const bool is_complete = first.speakers.size() >= static_cast<std::size_t>(style_.folded_ranks);
    if (!is_complete && now < first.limit && waiting_.size() <= kMostWaiting) break;
    release(out);
  }
  return out;
}

Deadline OutputPrinter::next() const {
  return waiting_.empty() ? kForever : Deadline::at(waiting_.front().limit);
}

void OutputPrinter::release(std::string& out) {
  write(waiting_.front(), out);
  waiting_.pop_front();
  ++first_;
}

void OutputPrinter::end_line(std::string& out) {
  if (end_ != '\n' && end_ != '\r') out += '\n';
  end_ = '\n';
  open_.reset();
}

void OutputPrinter::write(const Waiting& waiting, std::string& out) {
  const OutputLine& line = waiting.line;
  const int source = waiting.speakers.front().first;
  if (!line.continues || open_ != source) {
    if (open_) end_line(out);
    // The end of a line that was ended here already.
    if (line.continues && line.text.find_first_not_of("\r\n") == std::string::npos) return;
    out += waiting.time;
    if (style_.prefix) out += prefix_of(waiting.speakers);
  }
  out += line.text;
  if (!line.text.empty()) end_ = line.text.back();
  for (const auto& speaker : waiting.speakers) {
    if (line.text.find_first_not_of("\r\n") == std::string::npos) break;
    recent_.push_back(speaker);
    if (recent_.size() > kRecent) recent_.pop_front();
  }
  open_.reset();
  if (line.is_open) {
    open_ = source;
  } else {
    // Without an end the next rank's line would stand behind it.
    end_line(out);
  }
}

std::string OutputPrinter::print_message(const std::string& text) {
  std::string out;
  while (!waiting_.empty()) release(out);
  end_line(out);
  return out + text;
}

std::size_t OutputPrinter::recent(int source, int rank) const {
  return static_cast<std::size_t>(
      std::count(recent_.begin(), recent_.end(), std::pair(source, rank)));
}

}  // namespace hvd
