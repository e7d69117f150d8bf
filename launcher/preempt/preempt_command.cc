// SPDX-License-Identifier: Apache-2.0
#include "launcher/preempt/preempt_command.h"

#include <sys/prctl.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/environment.h"
#include "launcher/console/exit_code.h"
#include "launcher/console/message.h"
#include "launcher/job/job_directives.h"
#include "launcher/preempt/preempt_report.h"
#include "launcher/preempt/read_watch.h"
#include "launcher/preempt/trial.h"
#include "launcher/preempt/verdicts.h"

namespace hvd {
namespace {

constexpr const char* kRestartCount = "SLURM_RESTART_COUNT";

struct NamedSignal {
  int number;
  const char* name;
};
constexpr NamedSignal kNamedSignals[] = {
    {SIGUSR1, "USR1"}, {SIGUSR2, "USR2"}, {SIGTERM, "TERM"}, {SIGINT, "INT"}, {SIGHUP, "HUP"}};

/// The one that was typed, or that of the scripts which hvdrun writes.
Result<NamedSignal> choose_signal(const PreemptOptions& options) {
  JobOptions request;
  request.requeue = true;
  HVD_TRY_ASSIGN(const JobSignal usual, plan_signal(request));
  for (const NamedSignal& signal : kNamedSignals) {
    const bool is_chosen =
        options.signal == 0 ? usual.name == signal.name : options.signal == signal.number;
    if (is_chosen) return signal;
  }
  return error(Code::kInternal, "no signal {}", usual.name);
}

/// With SIGTERM and its like hvdrun itself kills after the grace: that is to be the test's.
TrialPlan plan_trial(const PreemptOptions& options, int signal) {
  TrialPlan plan{.run = options.run,
                 .signal = signal,
                 .after = options.after,
                 .grace = options.grace,
                 .start_limit = options.start_limit,
                 .before_signal = [] {}};
  const bool is_told = signal == SIGTERM || signal == SIGINT || signal == SIGHUP;
  if (is_told) plan.run.grace = std::max(plan.run.grace, options.grace + std::chrono::seconds(5));
  return plan;
}

/// What a job finds that was requeued once more.
void set_restart_count(RunOptions& run) {
  const auto count = Environment::of_process().get_int(kRestartCount, 0, 1'000'000);
  const long long before = count.is_ok() ? count.value().value_or(0) : 0;
  std::erase_if(run.variables, [](const VariableOption& one) { return one.name == kRestartCount; });
  run.variables.push_back({kRestartCount, std::to_string(before + 1)});
}

class PreemptTest {
 public:
  PreemptTest(const PreemptOptions& options, NamedSignal signal)
      : options_(options), signal_(signal) {
    seen_.signal = signal.name;
    seen_.kill = options.kill;
    seen_.after = options.after;
    seen_.grace = options.grace;
    seen_.folder.is_told = !options.folder.empty();
    seen_.folder.folder = seen_.folder.is_told ? options.folder : ".";
  }

  Result<int> run() {
    FolderSeen& folder = seen_.folder;
    folder.before = look();
    TrialPlan plan = plan_trial(options_, options_.kill ? SIGKILL : signal_.number);
    plan.before_signal = [&] { folder.at_signal = look(); };
    HVD_TRY_ASSIGN(seen_.first, run_trial(plan));
    folder.after_first = look();
    if (const auto code = code_without_report(seen_.first)) return *code;
    if (seen_.first.signalled) {
      HVD_TRY(run_again());
      if (const auto code = code_without_report(*seen_.second)) return *code;
    }
    return report();
  }

 private:
  Status run_again() {
    TrialPlan plan = plan_trial(options_, signal_.number);
    set_restart_count(plan.run);
    std::optional<ReadWatch> reads;
    if (seen_.folder.is_told) reads.emplace(seen_.folder.folder);
    HVD_TRY_ASSIGN(seen_.second, run_trial(plan));
    if (reads && reads->works()) {
      seen_.folder.read.emplace();
      for (const std::string& path : reads->take()) {
        if (seen_.folder.after_first.files.contains(path)) seen_.folder.read->insert(path);
      }
    }
    seen_.folder.after_second = look();
    return Status::ok();
  }

  /// An interrupt ends the test without a report; so does what could not be started at all.
  static std::optional<int> code_without_report(const Trial& trial) {
    if (trial.interrupt != 0) {
      print_message(format_text("test-preempt was interrupted by {}: nothing is known",
                                describe_signal(trial.interrupt)));
      return exit_code_of_signal(trial.interrupt);
    }
    if (trial.processes == 0) return trial.exit_code == 0 ? kExitFailure : trial.exit_code;
    return std::nullopt;
  }

  int report() const {
    const std::vector<PreemptLine> lines = judge(seen_);
    const int written = print_answer(options_.json ? preempt_report_json(seen_, lines)
                                                   : preempt_report_text(lines));
    return would_survive(lines) ? written : kExitFailure;
  }

  FolderLook look() const { return look_at_folder(seen_.folder.folder, !seen_.folder.is_told); }

  const PreemptOptions& options_;
  NamedSignal signal_;
  PreemptSeen seen_;
};

Status check_checkpoints(const std::string& folder) {
  std::error_code none;
  const bool is_other =
      std::filesystem::exists(folder, none) && !std::filesystem::is_directory(folder, none);
  if (!is_other) return Status::ok();
  return error(Code::kInvalidArgument, "--folder {} is not a folder: type that of the checkpoints",
               folder);
}

Result<int> run_checked(const PreemptOptions& options) {
  if (!options.folder.empty()) HVD_TRY(check_checkpoints(options.folder));
  HVD_TRY_ASSIGN(const NamedSignal signal, choose_signal(options));
  (void)::prctl(PR_SET_CHILD_SUBREAPER, 1);  // What outlives a killed hvdrun is ours to end.
  return PreemptTest(options, signal).run();
}

}  // namespace

int run_test_preempt(const PreemptOptions& options) {
  const Result<int> code = run_checked(options);
  if (code.is_ok()) return code.value();
  print_message(code.status().message());
  return code.status().code() == Code::kInvalidArgument ? kExitUsage : kExitFailure;
}

}  // namespace hvd
