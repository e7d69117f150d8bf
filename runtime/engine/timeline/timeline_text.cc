// SPDX-License-Identifier: Apache-2.0
#include "engine/timeline/timeline_text.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/format.h"

namespace hvd {
namespace {

constexpr std::string_view kReplacement = "\\ufffd";

/// Microseconds, as the format counts, with the nanoseconds after the point.
std::string microseconds(Clock::duration duration) {
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
  return format_text("{}.{:03}", ns / 1000, ns % 1000);
}

std::string microseconds(Clock::time_point time) { return microseconds(time.time_since_epoch()); }

std::string upper(std::string_view text) {
  std::string upper(text);
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return upper;
}

/// Bytes of the UTF-8 character at the front of `text`; 0 where there is none.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF5 ? 0 : first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return 0;
  }
  // Longer than need be, halves of UTF-16 pairs, and beyond the last character.
  const unsigned second = byte(1);
  if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second >= 0xA0) ||
      (first == 0xF0 && second < 0x90) || (first == 0xF4 && second >= 0x90)) {
    return 0;
  }
  return length;
}

}  // namespace

std::string json_string(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const std::size_t length = character_bytes(text);
    const auto first = static_cast<unsigned char>(text.front());
    if (length == 0) {
      quoted += kReplacement;
    } else if (first < 0x20) {
      quoted += format_text("\\u{:04x}", static_cast<unsigned>(first));
    } else {
      if (first == '"' || first == '\\') quoted += '\\';
      quoted += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return quoted + '"';
}

std::string TimelineText::begin(std::string_view host, Clock::time_point time,
                                double unix_seconds) const {
  const std::string title = json_string(format_text("rank {} on {}", rank_, host));
  std::string text = format_text(
      R"([
{{"ph":"M","pid":{0},"name":"process_name","args":{{"name":{1}}}}},
{{"ph":"M","pid":{0},"name":"process_sort_index","args":{{"sort_index":{0}}}}},
)",
      rank_, title);
  return text +
         format_text(R"({{"ph":"i","s":"p","pid":{},"tid":0,"ts":{},"name":"timeline begins",)"
                     R"("args":{{"unix_seconds":{:.6f}}}}},
)",
                     rank_, microseconds(time), unix_seconds);
}

void TimelineText::append(const TimelineEvent& event, std::string& text) {
  if (event.kind == TimelineEvent::Kind::kSubmitted) return submitted(event, text);
  if (event.kind == TimelineEvent::Kind::kWaited) return waited(event, text);
  if (event.kind == TimelineEvent::Kind::kBatch) return batch(event, text);
  const auto found = open_.find(event.request);
  if (found == open_.end()) return;
  Open& open = found->second;
  if (event.kind == TimelineEvent::Kind::kCompleted) {
    completed(open, event, text);
    open_.erase(found);
  } else if (event.kind == TimelineEvent::Kind::kDecided) {
    open.batch = event.number;
    enter(open, Phase::kQueue, event.time, text);
  } else if (open.phase !=
             Phase::kRun) {  // a request of several element types starts several times
    enter(open, Phase::kRun, event.time, text);
  }
}

void TimelineText::submitted(const TimelineEvent& event, std::string& text) {
  ++requests_;
  std::string title =
      event.has_own_row ? event.text : format_text("{} without a name", event.operation);
  if (event.process_set != 0) title += format_text(" (process set {})", event.process_set);
  if (names_.size() >= kMostNames && names_.find(title) == names_.end()) title = "further names";
  Name& name = name_of(title);
  const int row = take_row(name, title, text);
  text += format_text(R"({{"ph":"B","pid":{},"tid":{},"ts":{},"name":{},"cat":"{}",)"
                      R"("args":{{"process_set":{},"bytes":{}}}}},
)",
                      rank_, row, microseconds(event.time), json_string(event.text),
                      event.operation, event.process_set, event.number);
  Open& open = open_[event.request];
  open = {&name, row, Phase::kNegotiate, event.operation, 0};
  text += format_text(R"({{"ph":"B","pid":{},"tid":{},"ts":{},"name":"NEGOTIATE_{}"}},
)",
                      rank_, row, microseconds(event.time), upper(event.operation));
}

void TimelineText::enter(Open& open, Phase phase, Clock::time_point time, std::string& text) const {
  const std::string at = microseconds(time);
  text += format_text(R"({{"ph":"E","pid":{},"tid":{},"ts":{}}},
)",
                      rank_, open.row, at);
  open.phase = phase;
  text += format_text(R"({{"ph":"B","pid":{},"tid":{},"ts":{},"name":"{}","args":{{"batch":{}}}}},
)",
                      rank_, open.row, at, phase == Phase::kRun ? upper(open.operation) : "QUEUE",
                      open.batch);
}

void TimelineText::completed(Open& open, const TimelineEvent& event, std::string& text) const {
  std::string arguments = format_text(R"("outcome":"{}")", code_name(event.code));
  if (event.code != Code::kOk) arguments += ",\"error\":" + json_string(event.text);
  leave(open, arguments, event.time, text);
}

void TimelineText::leave(Open& open, std::string_view arguments, Clock::time_point time,
                         std::string& text) const {
  const std::string at = microseconds(time);
  text += format_text(R"({{"ph":"E","pid":{0},"tid":{1},"ts":{2}}},
{{"ph":"E","pid":{0},"tid":{1},"ts":{2},"args":{{{3}}}}},
)",
                      rank_, open.row, at, arguments);
  open.name->free.push_back(open.row);
}

void TimelineText::waited(const TimelineEvent& event, std::string& text) {
  const std::string title = format_text("waits of thread {}", event.number);
  Name& name = name_of(title);
  const int row = take_row(name, title, text);
  name.free.push_back(row);
  text += format_text(
      R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":{},"cat":"wait"}},
)",
      rank_, row, microseconds(event.time - event.length), microseconds(event.length),
      json_string(event.text));
}

void TimelineText::batch(const TimelineEvent& event, std::string& text) {
  Name& name = name_of("batches");
  const int row = take_row(name, "batches", text);
  name.free.push_back(row);
  text += format_text(R"({{"ph":"i","s":"p","pid":{},"tid":{},"ts":{},"name":"batch {}",)"
                      R"("args":{{"process_set":{},"requests":{}}}}},
)",
                      rank_, row, microseconds(event.time), event.number, event.process_set,
                      event.requests);
}

void TimelineText::append_left_out(std::uint64_t count, Clock::time_point time,
                                   std::string& text) const {
  text += format_text(
      R"({{"ph":"i","s":"p","pid":{},"tid":0,"ts":{},"name":"left out: the disk was too slow",)"
      R"("args":{{"left_out":{}}}}},
)",
      rank_, microseconds(time), count);
}

std::string TimelineText::end(std::uint64_t left_out, Clock::time_point time) {
  std::string text;
  for (auto& [request, open] : open_) leave(open, R"("outcome":"in flight")", time, text);
  open_.clear();
  return text + format_text(R"({{"ph":"i","s":"p","pid":{},"tid":0,"ts":{},"name":"timeline ends",)"
                            R"("args":{{"requests":{},"left_out":{}}}}}
]
)",
                            rank_, microseconds(time), requests_, left_out);
}

TimelineText::Name& TimelineText::name_of(const std::string& title) { return names_[title]; }

int TimelineText::take_row(Name& name, std::string_view title, std::string& text) {
  if (!name.free.empty()) {
    const auto first = std::min_element(name.free.begin(), name.free.end());
    const int row = *first;
    name.free.erase(first);
    return row;
  }
  ++name.rows;
  const int row = ++last_row_;
  const std::string shown =
      name.rows == 1 ? std::string(title) : format_text("{} #{}", title, name.rows);
  text += format_text(
      R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":{}}}}},
)",
      rank_, row, json_string(shown));
  return row;
}

}  // namespace hvd
