// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/srun_report.h"

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>

#include "base/format.h"
#include "launcher/console/exit_code.h"

namespace hvd {
namespace {

/// How long the nodes' reports of one failure may lie apart.
constexpr std::chrono::milliseconds kReportLimit{1000};

/// Neither abort(), with which a program may answer an error of ours, nor a request to end.
bool ended_without_a_word(const TaskFailure& failure) {
  return failure.signal != 0 && failure.signal != SIGABRT && failure.signal != SIGTERM &&
         failure.signal != SIGINT;
}

bool take(std::string_view& rest, std::string_view text) {
  if (!rest.starts_with(text)) return false;
  rest.remove_prefix(text.size());
  return true;
}

bool take_number(std::string_view& rest, int& value) {
  const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (parsed.ec != std::errc()) return false;
  rest.remove_prefix(static_cast<std::size_t>(parsed.ptr - rest.data()));
  return true;
}

/// srun writes signals as strsignal(3) does.
int signal_named(std::string_view text) {
  for (int signal = 1; signal < NSIG; ++signal) {
    const char* name = ::sigdescr_np(signal);
    if (name != nullptr && text.starts_with(name)) return signal;
  }
  return 0;
}

}  // namespace

std::optional<TaskFailure> parse_task_failure(std::string_view line) {
  TaskFailure failure;
  std::string_view rest = line;
  if (!take(rest, "srun: error: ")) return std::nullopt;
  const std::size_t colon = rest.find(": task");
  if (colon == std::string_view::npos) return std::nullopt;
  failure.host = rest.substr(0, colon);
  rest.remove_prefix(colon + std::string_view(": task").size());
  (void)take(rest, "s");
  if (!take(rest, " ") || !take_number(rest, failure.rank)) return std::nullopt;
  const std::size_t end_of_list = rest.find(": ");
  if (end_of_list == std::string_view::npos) return std::nullopt;
  rest.remove_prefix(end_of_list + 2);
  if (take(rest, "Exited with exit code ")) {
    if (!take_number(rest, failure.exit_code)) return std::nullopt;
    failure.what = format_text("exit code {}", failure.exit_code);
    return failure;
  }
  const bool is_oom = rest.starts_with("Out Of Memory");
  const int signal = is_oom ? SIGKILL : signal_named(rest);
  if (signal == 0) return std::nullopt;
  failure.signal = signal;
  failure.exit_code = exit_code_of_signal(signal);
  failure.what = is_oom ? "killed, out of memory" : describe_signal(signal);
  return failure;
}

void TaskFailureOrder::told(const TaskFailure& failure, Clock::time_point now) {
  if (is_taken_) return;
  const bool is_cause = ended_without_a_word(failure);
  if (!first_) limit_ = now + kReportLimit;
  if (!first_ || (is_cause && !ended_without_a_word(*first_))) first_ = failure;
  if (is_cause) limit_ = now;
}

std::optional<TaskFailure> TaskFailureOrder::take(Clock::time_point now) {
  if (is_taken_ || !first_ || now < limit_) return std::nullopt;
  is_taken_ = true;
  return first_;
}

Deadline TaskFailureOrder::next() const {
  return is_taken_ || !first_ ? kForever : Deadline::at(limit_);
}

}  // namespace hvd
