// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/job_status.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/format.h"
#include "launcher/console/exit_code.h"

namespace hvd {
namespace {

constexpr std::array<std::string_view, 10> kEndStates{
    "BOOT_FAIL", "CANCELLED",     "COMPLETED", "DEADLINE", "FAILED",
    "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED",  "TIMEOUT"};

/// The value behind " NAME=" up to the next blank; empty: none, or one that says nothing.
std::string status_field(std::string_view line, std::string_view name) {
  const std::string key = std::string(name) + "=";
  std::size_t at = 0;
  while ((at = line.find(key, at)) != std::string_view::npos) {
    if (at == 0 || line[at - 1] == ' ') break;
    ++at;
  }
  if (at == std::string_view::npos) return "";
  line.remove_prefix(at + key.size());
  const std::string value(line.substr(0, line.find(' ')));
  return value == "(null)" || value == "None" || value == "Unknown" ? "" : value;
}

/// As field(), for a path: up to the next " Name=", since paths may hold blanks.
std::string path_field(std::string_view line, std::string_view name) {
  const std::string key = " " + std::string(name) + "=";
  const std::size_t at = line.find(key);
  if (at == std::string_view::npos) return "";
  line.remove_prefix(at + key.size());
  std::size_t end = line.size();
  for (std::size_t blank = line.find(' '); blank != std::string_view::npos;
       blank = line.find(' ', blank + 1)) {
    const std::size_t word = line.find_first_of(" =", blank + 1);
    if (word != std::string_view::npos && line[word] == '=') {
      end = blank;
      break;
    }
  }
  return std::string(line.substr(0, end));
}

int number(std::string_view text, int fallback) {
  int value = fallback;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() ? value : fallback;
}

JobStatus status_of(std::string_view line) {
  JobStatus status;
  status.id = status_field(line, "JobId");
  if (const std::string array = status_field(line, "ArrayJobId"); !array.empty()) {
    const std::string entry = status_field(line, "ArrayTaskId");
    status.id = array + "_" + entry;
    status.array_entry = number(entry, -1);
  }
  status.state = status_field(line, "JobState");
  status.reason = status_field(line, "Reason");
  status.start = status_field(line, "StartTime");
  status.nodes = status_field(line, "NodeList");
  status.partition = status_field(line, "Partition");
  status.output = path_field(line, "StdOut");
  status.restarts = number(status_field(line, "Restarts"), 0);
  const std::string code = status_field(line, "ExitCode");
  const std::size_t colon = std::min(code.find(':'), code.size());
  status.exit_code = number(code.substr(0, colon), 0);
  status.signal = colon < code.size() ? number(code.substr(colon + 1), 0) : 0;
  return status;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace

bool JobStatus::is_pending() const {
  return state == "PENDING" || state == "REQUEUED" || state == "REQUEUE_HOLD" ||
         state == "SPECIAL_EXIT";
}

bool JobStatus::has_ended() const {
  return std::find(kEndStates.begin(), kEndStates.end(), state) != kEndStates.end();
}

int JobStatus::shell_code() const {
  if (state == "COMPLETED") return 0;
  if (signal != 0) return exit_code_of_signal(signal);
  return exit_code != 0 ? exit_code : kExitFailure;
}

std::vector<JobStatus> parse_job_status(std::string_view text) {
  std::vector<JobStatus> all;
  for (const std::string_view line : lines_of(text)) {
    JobStatus status = status_of(line);
    if (!status.id.empty() && !status.state.empty()) all.push_back(std::move(status));
  }
  return all;
}

std::string queue_place(std::string_view queue, std::string_view id) {
  const std::vector<std::string_view> ids = lines_of(queue);
  // squeue writes an array that waits as "12_[3-9%2]": the id up to '_' says whose it is.
  const auto job = [](std::string_view text) { return text.substr(0, text.find('_')); };
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (job(ids[i]) == job(id)) return format_text("{} of {}", i + 1, ids.size());
  }
  return "";
}

std::string describe_job(const JobStatus& status, const std::string& place) {
  std::string state = status.state;
  std::transform(state.begin(), state.end(), state.begin(),
                 [](char c) { return c == '_' ? ' ' : static_cast<char>(c | 0x20); });
  std::string text = format_text("job {} is {}", status.id, state);
  if (status.has_ended()) text = format_text("job {} ended: {}", status.id, state);
  if (status.has_ended() && status.state != "COMPLETED") {
    text += status.signal != 0 ? ", " + describe_signal(status.signal)
                               : format_text(", exit code {}", status.exit_code);
  }
  if (status.is_pending()) {
    if (!status.reason.empty()) text += " (" + status.reason + ")";
    if (!place.empty()) text += ", " + place + " in partition " + status.partition;
    if (!status.start.empty()) text += ", expected to start at " + status.start;
  }
  if (status.state == "RUNNING" && !status.nodes.empty()) text += " on " + status.nodes;
  if (status.restarts > 0 && !status.has_ended()) {
    text += format_text(", restarts: {}", status.restarts);
  }
  return text;
}

}  // namespace hvd
