// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/output_lines.h"

#include <array>
#include <charconv>
#include <chrono>
#include <ctime>

#include "base/format.h"
#include "launcher/run/srun_report.h"

namespace hvd {
namespace {

constexpr std::size_t kMaxLine = std::size_t{64} * 1024;
constexpr std::size_t kRemembered = 10;
constexpr std::size_t kMaxRemembered = 500;

std::string time_of_day() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  return format_text("{:02}:{:02}:{:02}.{:03} ", parts.tm_hour, parts.tm_min, parts.tm_sec, ms);
}

/// Cuts the label " 3: " that srun --label puts there; kNoRank when there is none (srun's own
/// lines).
int take_label(std::string_view& line) {
  std::string_view rest = line;
  while (rest.starts_with(" ")) rest.remove_prefix(1);
  int rank = kNoRank;
  const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), rank);
  if (parsed.ec != std::errc()) return kNoRank;
  rest.remove_prefix(static_cast<std::size_t>(parsed.ptr - rest.data()));
  if (!rest.starts_with(":")) return kNoRank;
  rest.remove_prefix(1);
  if (rest.starts_with(" ")) rest.remove_prefix(1);
  line = rest;
  return rank;
}

}  // namespace

void OutputLines::remember(int rank, std::string_view line) {
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
  if (line.empty()) return;
  std::deque<std::string>& last = last_[rank];
  last.emplace_back(line.substr(0, kMaxRemembered));
  if (last.size() > kRemembered) last.pop_front();
}

/// Takes one line, with its end; returns what is shown of it.
std::string OutputLines::show(std::string_view line) {
  int rank = rank_;
  if (style_.from_srun) {
    rank = take_label(line);
    const bool is_notice = rank == kNoRank || line.starts_with(kStepLine);
    if (is_notice) notices_.emplace_back(line.substr(0, line.find_last_not_of("\r\n") + 1));
    if (line.starts_with(kStepLine)) return "";
    if (rank != kNoRank) task_lines_.push_back({rank, std::string(line)});
  }
  remember(rank, line);
  std::string text = style_.timestamp ? time_of_day() : "";
  if (style_.prefix && rank != kNoRank) text += format_text("[{}] ", rank);
  text += line;
  return text;
}

std::string OutputLines::feed(std::string_view bytes) {
  const bool raw = !style_.prefix && !style_.timestamp && !style_.from_srun;
  std::string out = raw ? std::string(bytes) : "";
  pending_ += bytes;
  std::size_t start = 0;
  while (start < pending_.size()) {
    // A progress bar rewrites its line with '\r': shown at once, as a line of its own.
    std::size_t end = pending_.find_first_of("\r\n", start);
    if (end != std::string::npos && pending_[end] == '\r') {
      if (end + 1 == pending_.size()) break;  // "\r\n" may be cut in two.
      if (pending_[end + 1] == '\n') ++end;
    }
    if (end == std::string::npos) {
      if (pending_.size() - start < kMaxLine) break;
      end = pending_.size() - 1;
    }
    const std::string_view line = std::string_view(pending_).substr(start, end + 1 - start);
    const std::string text = show(line);
    if (!raw) out += text;
    start = end + 1;
  }
  pending_.erase(0, start);
  return out;
}

std::string OutputLines::finish() {
  if (pending_.empty()) return "";
  const std::string line = std::move(pending_);
  pending_.clear();
  const std::string text = show(line);
  if (!style_.prefix && !style_.timestamp && !style_.from_srun) return "";
  return text + (line.back() == '\r' ? "" : "\n");
}

}  // namespace hvd
