// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <iterator>
#include <map>
#include <utility>

#include "base/format.h"
#include "launcher/console/exit_code.h"
#include "launcher/preempt/verdicts.h"

namespace hvd {
namespace {

constexpr std::size_t kShownRanks = 4;
constexpr int kShortestLead = 60;  ///< sbatch's own; Slurm may send the signal 60 s early.

PreemptLine trial_line(bool second, std::string_view check, PreemptVerdict verdict,
                       std::string text, std::string remedy = "") {
  return {std::string(second ? kSecondRun : kFirstRun), std::string(check), verdict,
          std::move(text), std::move(remedy)};
}

std::string count_ranks(const Trial& trial) {
  return trial.processes == 1 ? "the rank" : format_text("all {} ranks", trial.processes);
}

/// "ranks 0, 2", with no more names than a line has room for.
std::string name_ranks(const std::vector<int>& ranks, std::size_t all) {
  if (ranks.size() == all && all > 1) return format_text("all {} ranks", all);
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(ranks.size(), kShownRanks); ++i) {
    text += format_text("{}{}", i == 0 ? "" : ", ", ranks[i]);
  }
  if (ranks.size() > kShownRanks) text += format_text(" and {} more", ranks.size() - kShownRanks);
  return text;
}

/// How ranks ended other than with 0: "rank 1: exit code 3"; with srun, what hvdrun returned.
std::string failures_of(const Trial& trial) {
  std::map<std::string, std::vector<int>> ranks;
  for (const auto& [rank, status] : trial.statuses) {
    if (status != 0) ranks[describe_end(status)].push_back(rank);
  }
  if (ranks.empty()) return format_text("exit code {}", trial.exit_code);
  std::string text;
  for (const auto& [end, failed] : ranks) {
    text += format_text("{}{}: {}", text.empty() ? "" : "; ",
                        name_ranks(failed, trial.statuses.size()), end);
  }
  return text;
}

/// SIGTERM and its like make hvdrun return 128 + signal, whatever the ranks do.
bool is_told_by(std::string_view signal) { return signal != "USR1" && signal != "USR2"; }

int signal_number(std::string_view signal) {
  if (signal == "USR1") return SIGUSR1;
  if (signal == "USR2") return SIGUSR2;
  if (signal == "TERM") return SIGTERM;
  if (signal == "INT") return SIGINT;
  return SIGHUP;
}

bool died_of_signal(const PreemptSeen& seen, const Trial& trial) {
  const int number = signal_number(seen.signal);
  if (trial.statuses.empty()) {
    return !is_told_by(seen.signal) && trial.exit_code == exit_code_of_signal(number);
  }
  // Behind a shell, which hides the signal in an exit code.
  return std::any_of(trial.statuses.begin(), trial.statuses.end(), [&](const auto& end) {
    return exit_code_of(end.second) == exit_code_of_signal(number);
  });
}

bool trial_failed(const PreemptSeen& seen, const Trial& trial) {
  if (trial.statuses.empty()) {
    const bool is_told = is_told_by(seen.signal) && trial.signalled;
    return trial.exit_code != 0 &&
           !(is_told && trial.exit_code == exit_code_of_signal(signal_number(seen.signal)));
  }
  return std::any_of(trial.statuses.begin(), trial.statuses.end(),
                     [](const auto& end) { return end.second != 0; });
}

PreemptLine judge_start(const Trial& trial, bool second) {
  const std::string as = second ? "as a requeued job (SLURM_RESTART_COUNT): " : "";
  if (trial.is_by_srun && trial.started) {
    return trial_line(
        second, "start", PreemptVerdict::kOk,
        format_text("{}the step of srun began after {}; when its ranks are in hvd.init() "
                    "is not seen from here",
                    as, in_seconds(*trial.started)));
  }
  if (trial.started) {
    return trial_line(
        second, "start", PreemptVerdict::kOk,
        format_text("{}{} in hvd.init() after {}", as,
                    trial.processes == 1 ? "the rank was" : count_ranks(trial) + " were",
                    in_seconds(*trial.started)));
  }
  if (trial.is_by_srun) {
    return trial_line(second, "start", PreemptVerdict::kFailed, as + "the step of srun never began",
                      "give the allocation's nodes time: --start-limit");
  }
  return trial_line(
      second, "start", PreemptVerdict::kUnknown,
      format_text("{}not all ranks came to hvd.init(): the time before the signal counted "
                  "from the start",
                  as),
      "--start-limit, where the program takes longer to come there");
}

/// It ended before the signal.
PreemptLine judge_early_end(const PreemptSeen& seen, const Trial& trial, bool second) {
  if (!trial_failed(seen, trial) && second) {
    return trial_line(
        second, "signal", PreemptVerdict::kOk,
        format_text("the program came to its own end after {}, before the signal: exit "
                    "code 0",
                    in_seconds(trial.end)));
  }
  if (!trial_failed(seen, trial)) {
    return trial_line(
        second, "signal", PreemptVerdict::kFailed,
        format_text("the program came to its own end after {}, before the signal: nothing "
                    "was tested",
                    in_seconds(trial.end)),
        "give it more steps, or a shorter --after");
  }
  const std::string text = format_text("the program failed after {}, before the signal ({})",
                                       in_seconds(trial.end), failures_of(trial));
  if (!second) {
    return trial_line(second, "signal", PreemptVerdict::kFailed, text,
                      "have it run under hvdrun first; its own lines are above");
  }
  return trial_line(second, "signal", PreemptVerdict::kFailed, text,
                    seen.kill ? "a checkpoint that was cut short must be passed over, as "
                                "hvd.Checkpoints does; the program's own lines are above"
                              : "what the first run left must be a start for the second; the "
                                "program's own lines are above");
}

PreemptLine judge_no_end(const PreemptSeen& seen, const Trial& trial, bool second) {
  if (trial.handles && !*trial.handles) {
    return trial_line(second, "signal", PreemptVerdict::kFailed,
                      format_text("the program ignores SIG{}: still there after {}, and killed",
                                  seen.signal, in_seconds(seen.grace)),
                      "call hvd.should_stop() in each step, and save and end when it is True");
  }
  return trial_line(
      second, "signal", PreemptVerdict::kFailed,
      format_text("{}: still there {} after SIG{}, and killed",
                  trial.handles ? "the program handles the signal and does not end"
                                : "the program does not end",
                  in_seconds(seen.grace), seen.signal),
      "call hvd.should_stop() in each step on every rank, and end the loop when it is "
      "True; where saving takes longer: --grace, and a lead as long");
}

PreemptLine judge_signal(const PreemptSeen& seen, const Trial& trial, bool second) {
  if (!trial.signalled) return judge_early_end(seen, trial, second);
  const bool by_kill = seen.kill && !second;
  if (by_kill) {
    return trial_line(
        second, "signal", PreemptVerdict::kOk,
        format_text("SIGKILL to all processes after {}", in_seconds(*trial.signalled)));
  }
  if (trial.was_killed) return judge_no_end(seen, trial, second);
  const std::string when = in_seconds(trial.end);
  if (died_of_signal(seen, trial)) {
    return trial_line(
        second, "signal", PreemptVerdict::kFailed,
        format_text("the program ended by SIG{} itself ({}): it had no handler then", seen.signal,
                    failures_of(trial)),
        "call hvd.should_stop() in each step, and save and end when it is True; its first "
        "call installs the handlers");
  }
  if (trial_failed(seen, trial)) {
    return trial_line(
        second, "signal", PreemptVerdict::kFailed,
        format_text("the program ended {} after SIG{}, and failed ({})", when, seen.signal,
                    failures_of(trial)),
        "end with exit code 0 once the checkpoint is written; the program's own lines are "
        "above");
  }
  return trial_line(
      second, "signal", PreemptVerdict::kOk,
      format_text("the program ended {} after SIG{}, exit code 0", when, seen.signal));
}

PreemptLine judge_left(const Trial& trial, bool second) {
  if (trial.left == 0) {
    return trial_line(second, "processes", PreemptVerdict::kOk,
                      "none was left when the ranks had ended");
  }
  return trial_line(second, "processes", PreemptVerdict::kFailed,
                    format_text("{} still ran when the ranks had ended, and {} killed: {}",
                                trial.left == 1 ? "one" : format_text("{}", trial.left),
                                trial.left == 1 ? "was" : "were", trial.left_command),
                    "what it writes is cut short in a job: wait for it before the rank ends");
}

}  // namespace

std::string in_seconds(SecondsSeen seconds) { return format_text("{:.1f} s", seconds.count()); }

std::vector<PreemptLine> judge_run(const PreemptSeen& seen, const Trial& trial, bool second,
                                   std::vector<PreemptLine> files) {
  std::vector<PreemptLine> lines;
  const bool ended_at_once = !trial.started && !trial.signalled && !trial.was_killed;
  if (!ended_at_once) lines.push_back(judge_start(trial, second));
  const bool never_began = !trial.signalled && trial.was_killed;
  if (!never_began) lines.push_back(judge_signal(seen, trial, second));
  std::move(files.begin(), files.end(), std::back_inserter(lines));
  const bool was_seen = !trial.is_by_srun && !trial.was_killed && !(seen.kill && !second);
  if (was_seen) lines.push_back(judge_left(trial, second));
  return lines;
}

bool ended_well(const PreemptSeen& seen, const Trial& trial) {
  return trial.signalled && !trial.was_killed && !trial_failed(seen, trial);
}

PreemptLine advise_lead(const PreemptSeen& seen) {
  SecondsSeen longest{};
  bool was_measured = false;
  const auto measure = [&](const Trial& trial) {
    if (!ended_well(seen, trial)) return;
    was_measured = true;
    longest = std::max(longest, trial.end);
  };
  if (!seen.kill) measure(seen.first);
  if (seen.second) measure(*seen.second);
  if (!was_measured) {
    return {"job", "lead", PreemptVerdict::kUnknown,
            "how long the program takes to end after a signal is not known", ""};
  }
  const int twice = static_cast<int>(std::ceil(longest.count() * 2 / 10)) * 10;
  const int lead = std::max(kShortestLead, twice);
  return {"job", "lead", PreemptVerdict::kOk,
          format_text("it took {}, and twice that is enough: #SBATCH --signal={}@{}, or hvdrun "
                      "script --requeue --signal B:{}@{}, which gives the program half of it",
                      in_seconds(longest), seen.signal, lead, seen.signal, lead * 2),
          ""};
}

std::vector<PreemptLine> judge(const PreemptSeen& seen) {
  std::vector<PreemptLine> files;
  if (seen.first.signalled) files = judge_files(seen);
  std::vector<PreemptLine> lines = judge_run(seen, seen.first, false, std::move(files));
  if (!seen.second) return lines;
  std::vector<PreemptLine> second = judge_run(seen, *seen.second, true, {judge_resume(seen)});
  std::move(second.begin(), second.end(), std::back_inserter(lines));
  lines.push_back(advise_lead(seen));
  return lines;
}

bool would_survive(const std::vector<PreemptLine>& lines) {
  return std::none_of(lines.begin(), lines.end(), [](const PreemptLine& one) {
    return one.verdict == PreemptVerdict::kFailed;
  });
}

}  // namespace hvd
