// SPDX-License-Identifier: Apache-2.0
#include "launcher/preempt/preempt_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "launcher/console/exit_code.h"

namespace hvd {
namespace {

using ReportJson = nlohmann::ordered_json;

std::string_view word_of(PreemptVerdict verdict) {
  if (verdict == PreemptVerdict::kOk) return "ok";
  return verdict == PreemptVerdict::kFailed ? "failed" : "unknown";
}

std::size_t count_lines(const std::vector<PreemptLine>& lines, PreemptVerdict verdict) {
  return static_cast<std::size_t>(
      std::count_if(lines.begin(), lines.end(),
                    [&](const PreemptLine& line) { return line.verdict == verdict; }));
}

std::string conclusion(const std::vector<PreemptLine>& lines) {
  const std::size_t failed = count_lines(lines, PreemptVerdict::kFailed);
  const std::size_t unknown = count_lines(lines, PreemptVerdict::kUnknown);
  if (failed != 0) {
    return format_text("It would not survive: {} of {} checks failed.", failed, lines.size());
  }
  if (unknown != 0) {
    return format_text("It would survive as far as is known; {} of {} checks could not be made.",
                       unknown, lines.size());
  }
  return "It would survive.";
}

ReportJson trial_json(const Trial& trial) {
  ReportJson json;
  const auto seconds = [](const std::optional<SecondsSeen>& time) {
    return time ? ReportJson(time->count()) : ReportJson();
  };
  json["started_s"] = seconds(trial.started);
  json["signalled_s"] = seconds(trial.signalled);
  json["ended_after_s"] = trial.end.count();
  json["was_killed"] = trial.was_killed;
  json["exit_code"] = trial.exit_code;
  ReportJson codes = ReportJson::object();
  for (const auto& [rank, status] : trial.statuses) {
    codes[std::to_string(rank)] = exit_code_of(status);
  }
  json["rank_exit_codes"] = std::move(codes);
  return json;
}

}  // namespace

std::string preempt_report_text(const std::vector<PreemptLine>& lines) {
  std::string text;
  std::string part;
  for (const PreemptLine& line : lines) {
    if (line.part != part) text += format_text("{}{}\n", text.empty() ? "" : "\n", line.part);
    part = line.part;
    text += format_text("  {:<8} {:<11} {}\n", word_of(line.verdict), line.check, line.text);
    if (!line.remedy.empty()) text += format_text("{:23}-> {}\n", "", line.remedy);
  }
  return text + "\n" + conclusion(lines) + "\n";
}

std::string preempt_report_json(const PreemptSeen& seen, const std::vector<PreemptLine>& lines) {
  ReportJson json;
  json["survives"] = would_survive(lines);
  json["signal"] = seen.signal;
  json["kill"] = seen.kill;
  ReportJson checks = ReportJson::array();
  for (const PreemptLine& line : lines) {
    checks.push_back({{"part", line.part},
                      {"check", line.check},
                      {"verdict", word_of(line.verdict)},
                      {"text", line.text},
                      {"remedy", line.remedy}});
  }
  json["checks"] = std::move(checks);
  json["first_run"] = trial_json(seen.first);
  json["second_run"] = seen.second ? trial_json(*seen.second) : ReportJson();
  // A path may hold any bytes: what is not UTF-8 is replaced.
  return json.dump(2, ' ', false, ReportJson::error_handler_t::replace) + "\n";
}

}  // namespace hvd
