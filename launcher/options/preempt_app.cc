// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>
#include <csignal>
#include <map>

#include "launcher/options/app.h"
#include "launcher/options/launch_flags.h"
#include "launcher/options/parsers.h"

namespace hvd {
namespace {

constexpr double kLongestTime = 86400;

/// Durations as they are typed: "10", "10s", "2m" or "1h".
struct PreemptTimes {
  std::string after = "10s";
  std::string grace = "120s";
  std::string start_limit = "120s";
};

Result<std::chrono::milliseconds> parse_duration(std::string_view option, std::string_view text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data(), end, number);
  const std::map<std::string_view, double> units{{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}};
  const auto unit = units.find(std::string_view(rest, static_cast<std::size_t>(end - rest)));
  const double seconds = unit == units.end() ? -1 : number * unit->second;
  const bool is_time = failure == std::errc() && seconds >= 0 && seconds <= kLongestTime;
  if (!is_time) {
    return usage(format_text("{}: '{}' is not a time from 0 to 24h: type seconds, or 10s, 2m, 1h",
                             option, text),
                 "test-preempt");
  }
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

Status read_times(const PreemptTimes& raw, PreemptOptions& options) {
  HVD_TRY_ASSIGN(options.after, parse_duration("--after", raw.after));
  HVD_TRY_ASSIGN(options.grace, parse_duration("--grace", raw.grace));
  HVD_TRY_ASSIGN(options.start_limit, parse_duration("--start-limit", raw.start_limit));
  return Status::ok();
}

void add_test_flags(CLI::App& app, PreemptOptions& options, PreemptTimes& times) {
  const std::map<std::string, int> signals{
      {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"TERM", SIGTERM}, {"INT", SIGINT}, {"HUP", SIGHUP}};
  app.add_option("--after", times.after,
                 "How long the program runs before the signal, from the moment at which all ranks "
                 "are in hvd.init() (10s); with srun, from the start of its step")
      ->type_name("TIME")
      ->group("Test");
  app.add_option("--signal", options.signal,
                 "What a preemption or the time limit sends (default: USR2, as the scripts of "
                 "hvdrun script --requeue)")
      ->type_name("USR1|USR2|TERM|INT|HUP")
      ->group("Test")
      ->transform(CLI::CheckedTransformer(signals))
      ->default_str("");
  app.add_option("--grace", times.grace,
                 "How long the program may take to end after the signal (120s)")
      ->type_name("TIME")
      ->group("Test");
  app.add_option("--folder", options.folder,
                 "Folder of the checkpoints: what is written there, and read by the second start")
      ->type_name("DIR")
      ->group("Test");
  app.add_flag("--kill", options.kill,
               "End the first run by SIGKILL to all of its processes, as a node that fails does: "
               "no warning, no checkpoint; the second start must come up all the same")
      ->group("Test");
  app.add_option("--start-limit", times.start_limit,
                 "How long to wait for hvd.init() of all ranks (120s); then --after counts from "
                 "the start")
      ->type_name("TIME")
      ->group("Test");
}

}  // namespace

Result<CommandLine> parse_test_preempt(const std::vector<std::string>& arguments) {
  std::vector<std::string> respelled = arguments;
  std::replace(respelled.begin(), respelled.end(), std::string("-np"), std::string("--np"));
  auto app = make_app(
      "Shows before a long run that a training survives preemption, time limit and requeue: starts "
      "the program as hvdrun does, sends it the signal that a job gets, looks whether it saves its "
      "work and ends, starts it again as a requeued job is, and looks whether it goes on. The "
      "program's output is on standard error, the report on standard output.\n"
      "Exit code: 0 it would survive, 1 it would not, or nothing could be tested, 2 wrong usage.",
      "hvdrun test-preempt", true);
  PreemptOptions options;
  LaunchFlags launch;
  PreemptTimes times;
  add_test_flags(*app, options, times);
  add_launch_flags(*app, options.run, launch);
  app->add_flag("--json", options.json, "Print the report as JSON")->group("Other");
  HVD_TRY_ASSIGN(auto print, parse_with(*app, std::move(respelled), "test-preempt"));
  if (print) return CommandLine(*std::move(print));
  HVD_TRY_ASSIGN(options.run.command, program_of(*app, arguments, "test-preempt"));
  HVD_TRY(read_launch_flags(launch, options.run));
  HVD_TRY(read_times(times, options));
  if (options.run.command.empty()) {
    return usage("no program to test: type hvdrun test-preempt [options] -- PROGRAM [arguments]",
                 "test-preempt");
  }
  return CommandLine(std::move(options));
}

}  // namespace hvd
