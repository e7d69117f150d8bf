// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/elastic_job.h"

#include <sys/wait.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "base/format.h"
#include "base/overloaded.h"
#include "launcher/console/exit_code.h"

namespace hvd {

void ElasticJob::serve() {
  for (const ElasticEvent& event : parts_.store.take_events()) {
    std::visit(
        Overloaded{[&](const Membership& membership) {
                     const std::string news = parts_.recovery.begun(membership, Clock::now());
                     if (!news.empty()) parts_.output.say(news);
                     end_surplus();
                   },
                   [&](const ProcessEntered& entered) { process_entered(entered); },
                   [&](const ProcessCame& came) {
                     parts_.recovery.came(came);
                     growth_.came(came.host);
                   },
                   [&](const ProcessEnded& ended) {
                     process_ended(ended.process, ended.status,
                                   describe_end(ended.status) + ended.why);
                   },
                   [&](const ProcessGone& gone) {
                     if (parts_.recovery.lives(gone.process)) {
                       growth_.lost_with_node(parts_.recovery.host_of(gone.process));
                     }
                     process_ended(gone.process, W_EXITCODE(kExitFailure, 0),
                                   "its node does not answer any more, or the hvdrun beside it was "
                                   "killed",
                                   false);
                   }},
        event);
  }
}

void ElasticJob::process_entered(const ProcessEntered& entered) {
  parts_.recovery.entered(entered, Clock::now());
  // Who attended it on another host has gone with it.
  while (const auto process = parts_.recovery.take_refuted()) {
    lose(*process, !parts_.is_by_srun);
  }
}

void ElasticJob::process_ended(int process, int status, const std::string& how, bool is_there) {
  const Recovery& recovery = parts_.recovery;
  if (!recovery.lives(process) || are_dismissed_) return parts_.start_again(process, -1);
  parts_.output.drain(stream_of(process));
  // One that got a rank in the same moment is missed by the others.
  if (recovery.is_dismissed(process) && !recovery.is_rank(process)) {
    finish(process);
    return start_wanted();
  }
  const int code = exit_code_of(status);
  if (code == 0 && recovery.was_lost(process)) return lose(process, is_there);
  if (code == 0) return finish(process);
  lose({.process = process, .code = code, .how = how}, is_there);
}

void ElasticJob::finish(int process) {
  parts_.recovery.finished(process);
  parts_.store.process_ended(process, true);
  parts_.start_again(process, -1);
  check_end();
}

void ElasticJob::lose(int process, bool is_there) {
  lose({.process = process,
        .code = kExitFailure,
        .how = "its program has ended with exit code 0, but without hvd (os._exit(), or a pipe "
               "or a shell that hides exit codes: bash has `set -o pipefail`)"},
       is_there);
}

void ElasticJob::lose(Recovery::End end, bool is_there) {
  const std::string name = parts_.recovery.name_of(end.process);
  if (is_there) replace(end);
  const bool goes_on = goes_on_without(end);
  if (!goes_on) {
    fail(end.process, end.code, parts_.recovery.describe_failure(name, end), true);
  }
  // Those that wait for it learn last, and so of a job that ends the reason.
  parts_.store.process_ended(end.process, false);
  parts_.start_again(end.process, goes_on ? end.successor.value_or(-1) : -1);
  check_end();
}

void ElasticJob::check_end() {
  if (!parts_.recovery.is_over() || parts_.ending.has_begun()) return;
  if (const auto& loss = parts_.recovery.unhealed())
    fail(loss->process, loss->code, loss->what, false);
}

void ElasticJob::replace(Recovery::End& end) {
  if (parts_.ending.has_begun() || !parts_.recovery.can_spare(end.process)) return;
  const auto started = started_.find(end.process);
  const auto since = started == started_.end() ? begin_ : started->second;
  const auto why_not =
      parts_.restarts.refuse(parts_.recovery.place(end.process),
                             parts_.recovery.host_of(end.process), Clock::now() - since);
  if (why_not) {
    end.why_not = *why_not;
    return;
  }
  // Before the store hears of the end: there may be too few without it.
  end.successor = start_in_place_of(end.process);
}

int ElasticJob::start_in_place_of(int process) {
  const int successor = parts_.recovery.add(process);
  started_[successor] = Clock::now();
  parts_.store.add_process();
  return successor;
}

void ElasticJob::aim_at(int size, const std::string& why) {
  Recovery& recovery = parts_.recovery;
  const int before = recovery.aim();
  recovery.aim_at(size);
  const int aim = recovery.aim();
  if (aim == before || !may_grow()) return;
  parts_.output.say(format_text("{}: the job goes from {} to {} rank{}, after the next commit", why,
                                before, aim, aim == 1 ? "" : "s"));
  growth_.aim_changed(aim - before, recovery.missing());
  start_wanted();
  parts_.store.aim_at(aim);
  end_surplus();
}

void ElasticJob::start_wanted() {
  for (const int process : parts_.recovery.free_places(growth_.wanted())) {
    parts_.start_again(process, start_in_place_of(process));
    growth_.started();
  }
}

void ElasticJob::end_surplus() {
  for (const int process : parts_.recovery.surplus()) {
    parts_.recovery.dismiss(process);
    parts_.store.process_ended(process, false);  // It gets no rank any more.
    parts_.kill(process);
  }
}

bool ElasticJob::goes_on_without(const Recovery::End& end) {
  const auto news = parts_.recovery.failed(end, Clock::now());
  if (!news || parts_.ending.has_begun()) return false;
  parts_.output.say(*news);
  say_last_lines(end.process);
  parts_.kill(end.process);  // What it has started.
  return true;
}

void ElasticJob::fail(int process, int code, const std::string& why, bool shows_lines) {
  if (!parts_.ending.rank_failed(code, Clock::now())) return;
  parts_.output.stop_waiting();
  parts_.output.say(why);
  if (shows_lines) say_last_lines(process);
  first_failure_ = parts_.recovery.first_loss();
  parts_.store.end_job("the job ends: " + parts_.recovery.shortage());
  parts_.output.mark();
}

void ElasticJob::say_last_lines(int process) {
  // Lines of a step are those of its tasks.
  const int label = parts_.is_by_srun ? parts_.recovery.place(process) : process;
  parts_.output.say_last_lines(stream_of(process), label);
}

void ElasticJob::task_failed(const TaskFailure& failure) {
  serve();  // What it said itself comes first.
  if (failure.rank >= parts_.recovery.processes()) return;
  process_ended(failure.rank, W_EXITCODE(failure.exit_code & 0xff, 0), failure.what, false);
}

int ElasticJob::step_of(int process) const {
  const auto after = std::upper_bound(steps_.begin(), steps_.end(), parts_.recovery.place(process));
  return static_cast<int>(after - steps_.begin()) - 1;
}

bool ElasticJob::has_ranks_elsewhere(int step) const {
  const std::vector<int> ranks = parts_.recovery.ranks();
  return std::any_of(ranks.begin(), ranks.end(),
                     [&](int process) { return step_of(process) != step; });
}

void ElasticJob::srun_ended(int index, int status) {
  serve();
  if (is_over()) return;
  const int code = exit_code_of(status);
  if (steps_.size() > 1 && has_ranks_elsewhere(index)) {
    for (int process = 0; process < parts_.recovery.processes(); ++process) {
      if (!parts_.recovery.lives(process) || step_of(process) != index) continue;
      lose({.process = process,
            .code = code == 0 ? kExitFailure : code,
            .how = "the srun that started it has ended: " + describe_end(status)},
           false);
    }
    return;
  }
  if (!parts_.ending.rank_failed(code == 0 ? kExitFailure : code, Clock::now())) return;
  parts_.output.say(format_text("srun ended before the ranks: {}", describe_end(status)));
}

void ElasticJob::advance(Clock::time_point now) {
  for (const int process : parts_.recovery.overdue(now)) {
    parts_.output.say(parts_.recovery.describe_overdue(process));
    parts_.kill(process);
  }
  for (const int process : parts_.recovery.unkillable(now)) {
    lose({.process = process,
          .code = kExitFailure,
          .how = "it cannot be killed: the hvdrun beside it does not answer, or it hangs in its "
                 "kernel"},
         false);
  }
}

Growth::Need ElasticJob::need(int max_size) const {
  return {parts_.recovery.missing(), parts_.recovery.aim(), max_size};
}

bool ElasticJob::may_grow() const {
  return !is_over() && !parts_.ending.has_begun() && !parts_.recovery.has_finished();
}

bool ElasticJob::wants_nodes(int max_size) const {
  return may_grow() && parts_.recovery.knows_hosts() &&
         growth_.wants_nodes(need(max_size), Clock::now());
}

void ElasticJob::offer_nodes(const std::vector<std::string>& nodes, int max_size, int tasks) {
  serve();
  Recovery& recovery = parts_.recovery;
  if (!may_grow() || !recovery.knows_hosts()) return;
  const auto is_used = [&](const std::string& host) { return recovery.is_used(host); };
  const auto now = Clock::now();
  while (const auto start = growth_.next(nodes, need(max_size), tasks, is_used, now)) {
    if (start->grown > 0) recovery.aim_at(recovery.aim() + start->grown);
    start_on(start->host, start->count);
    parts_.store.aim_at(recovery.aim());
  }
}

void ElasticJob::start_on(const std::string& host, int count) {
  parts_.output.say(format_text("node {} may be there again: {} process{} there", host, count,
                                count == 1 ? " starts" : "es start"));
  const int first = parts_.recovery.processes();
  for (int i = 0; i < count; ++i) {
    started_[parts_.recovery.add_on(host)] = Clock::now();
    parts_.store.add_process();
  }
  steps_.push_back(first);
  parts_.start_step({host, count, first});
}

void ElasticJob::dismiss_spares() {
  if (std::exchange(are_dismissed_, true)) return;
  for (const int spare : parts_.recovery.spares()) parts_.kill(spare);
}

}  // namespace hvd
