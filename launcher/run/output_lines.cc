// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/output_lines.h"

#include <algorithm>
#include <charconv>

#include "launcher/run/srun_report.h"

namespace hvd {
namespace {

constexpr std::size_t kMaxLine = std::size_t{64} * 1024;
constexpr std::size_t kRemembered = 10;
constexpr std::size_t kMaxRemembered = 500;

/// Bytes up to the end of the last whole character of UTF-8; all where the end is none of it.
std::size_t whole_characters(std::string_view text) {
  constexpr std::size_t kMostBytes = 4;
  const auto byte = [text](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  for (std::size_t back = 1; back <= std::min(kMostBytes, text.size()); ++back) {
    const unsigned char first = byte(text.size() - back);
    if ((first & 0xC0U) == 0x80U) continue;  // not the first of its character
    const std::size_t bytes = first >= 0xF0U ? 4 : first >= 0xE0U ? 3 : first >= 0xC0U ? 2 : 1;
    return bytes > back ? text.size() - back : text.size();
  }
  return text.size();
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
  line = line.substr(0, kMaxRemembered);
  last.emplace_back(line.substr(0, whole_characters(line)));
  if (last.size() > kRemembered) last.pop_front();
}

/// Takes one line, with its end, if it has one.
void OutputLines::give_out(std::string_view line, std::vector<OutputLine>& out) {
  int rank = rank_;
  if (style_.from_srun) {
    const int label = is_cut_ ? kNoRank : take_label(line);
    rank = is_cut_ ? cut_rank_ : label == kNoRank ? label : label + style_.first_task;
    cut_rank_ = rank;
    const bool is_notice = rank == kNoRank || line.starts_with(kStepLine);
    if (is_notice) {
      const std::string_view text = line.substr(0, line.find_last_not_of("\r\n") + 1);
      notices_.push_back({std::string(text), style_.first_task});
    }
    if (line.starts_with(kStepLine)) return;
    if (rank != kNoRank) task_lines_.push_back({rank, std::string(line)});
  }
  remember(rank, line);
  if (style_.is_raw()) return;
  const std::size_t shown = std::exchange(shown_, 0);
  out.push_back({rank, std::string(line.substr(shown)), shown != 0, false});
}

std::vector<OutputLine> OutputLines::feed(std::string_view bytes) {
  std::vector<OutputLine> out;
  if (style_.is_raw()) out.push_back({rank_, std::string(bytes), false, false});
  pending_ += bytes;
  std::size_t start = 0;
  while (start < pending_.size()) {
    bool is_cut = false;
    // A progress bar rewrites its line with '\r': shown at once, as a line of its own.
    std::size_t end = pending_.find_first_of("\r\n", start);
    if (end != std::string::npos && pending_[end] == '\r') {
      if (end + 1 == pending_.size()) break;  // "\r\n" may be cut in two.
      if (pending_[end + 1] == '\n') ++end;
    }
    if (end == std::string::npos) {
      if (pending_.size() - start < kMaxLine) break;
      end = start + whole_characters(std::string_view(pending_).substr(start)) - 1;
      is_cut = true;
    }
    give_out(std::string_view(pending_).substr(start, end + 1 - start), out);
    is_cut_ = is_cut;
    start = end + 1;
    if (is_cut) break;  // what is left is part of a character
  }
  pending_.erase(0, start);
  return out;
}

std::vector<OutputLine> OutputLines::take_open() {
  if (!has_open() || style_.from_srun) return {};
  const std::size_t whole = whole_characters(pending_);
  if (whole <= shown_) return {};
  const std::size_t shown = std::exchange(shown_, whole);
  return {{rank_, pending_.substr(shown, whole - shown), shown != 0, true}};
}

std::vector<OutputLine> OutputLines::finish() {
  std::vector<OutputLine> out;
  if (pending_.empty()) return out;
  const std::string line = std::exchange(pending_, {});
  give_out(line, out);
  return out;
}

}  // namespace hvd
