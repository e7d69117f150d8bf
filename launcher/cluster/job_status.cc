// SPDX-License-Identifier: Apache-2.0
#include "launcher/cluster/job_status.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/format.h"
#include "launcher/cluster/slurm_record.h"
#include "launcher/console/exit_code.h"
#include "launcher/site/time_limit.h"

namespace hvd {
namespace {

constexpr std::array<std::string_view, 10> kEndStates{
    "BOOT_FAIL", "CANCELLED",     "COMPLETED", "DEADLINE", "FAILED",
    "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED",  "TIMEOUT"};

/// What Slurm says in place of a signal where a node could not set the job up.
constexpr int kNotSetUp = 53;

int number(std::string_view text, int fallback) {
  int value = fallback;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() ? value : fallback;
}

/// Absent: the job has no limit, or is not running.
std::optional<std::chrono::seconds> time_left_of(std::string_view line) {
  const auto limit = parse_time_limit(record_field(line, "TimeLimit"));
  const auto spent = parse_time_limit(record_field(line, "RunTime"));
  if (record_field(line, "JobState") != "RUNNING" || !limit.is_ok() || !spent.is_ok()) {
    return std::nullopt;
  }
  return std::max(limit.value() - spent.value(), std::chrono::seconds(0));
}

JobStatus status_of(std::string_view record) {
  const std::string line = job_fields(record);
  JobStatus status;
  status.id = record_field(line, "JobId");
  if (const std::string array = record_field(line, "ArrayJobId"); !array.empty()) {
    const std::string entry = record_field(line, "ArrayTaskId");
    status.id = array + "_" + entry;
    status.array_entry = number(entry, -1);
  }
  status.state = record_field(line, "JobState");
  status.reason = record_field(line, "Reason");
  status.start = record_field(line, "StartTime");
  status.nodes = record_field(line, "NodeList");
  status.partition = record_field(line, "Partition");
  status.output = record_path(record, "StdOut");
  status.restarts = number(record_field(line, "Restarts"), 0);
  status.time_left = time_left_of(line);
  if (status.time_left) status.end = record_field(line, "EndTime");
  const std::string code = record_field(line, "ExitCode");
  const std::size_t colon = std::min(code.find(':'), code.size());
  status.exit_code = number(code.substr(0, colon), 0);
  status.signal = colon < code.size() ? number(code.substr(colon + 1), 0) : 0;
  return status;
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
  if (signal != 0 && signal != kNotSetUp) return exit_code_of_signal(signal);
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
  if (status.signal == kNotSetUp && status.has_ended()) {
    text += ", the node could not start it (0:53): the folder of its output" +
            (status.output.empty() ? std::string() : " (" + status.output + ")") +
            ", or the folder that it runs in, is not there or not writable";
  } else if (status.has_ended() && status.state != "COMPLETED") {
    text += status.signal != 0 ? ", " + describe_signal(status.signal)
                               : format_text(", exit code {}", status.exit_code);
  }
  if (status.is_pending()) {
    if (!status.reason.empty()) text += " (" + status.reason + ")";
    if (!place.empty()) text += ", " + place + " in partition " + status.partition;
    if (!status.start.empty()) text += ", expected to start at " + status.start;
  }
  if (status.state == "RUNNING" && !status.nodes.empty()) text += " on " + status.nodes;
  if (!status.end.empty()) text += ", until " + status.end + " at the latest";
  if (status.restarts > 0 && !status.has_ended()) {
    text += format_text(", restarts: {}", status.restarts);
  }
  return text;
}

}  // namespace hvd
