// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "launcher/plan/command.h"
#include "launcher/run/ending.h"
#include "launcher/run/growth.h"
#include "launcher/run/job_output.h"
#include "launcher/run/job_store.h"
#include "launcher/run/recovery.h"
#include "launcher/run/restarts.h"
#include "launcher/run/srun_report.h"

namespace hvd {

/// What hvdrun does where processes of an elastic job end: tells the store, which gives ranks anew,
/// and the user; ends the job where it cannot go on. Recovery decides. Not thread-safe.
class ElasticJob {
 public:
  /// What it works with; all of it outlives this.
  struct Parts {
    Recovery& recovery;
    JobStore& store;
    Ending& ending;
    JobOutput& output;
    Restarts& restarts;
    std::function<void(int process)> kill;
    /// Starts a process that has ended again as `successor`; negative: it is not.
    std::function<void(int process, int successor)> start_again;
    /// Starts one more srun, on one host.
    std::function<void(const LaterStep& step)> start_step;
    bool is_by_srun = false;  ///< All output comes by the streams of srun, the first command.
  };

  explicit ElasticJob(Parts parts) : parts_(std::move(parts)) {}

  /// A message of hvdrun.
  void say(const std::string& text) { parts_.output.say(text); }
  /// Takes what the store has to tell.
  void serve();
  /// A process has ended; `status`: as waitpid gives it, `how`: for people. `is_there`: it can be
  /// started again where it was.
  void process_ended(int process, int status, const std::string& how, bool is_there = true);
  /// srun says that a task has failed: the hvdrun in it, before it could say anything itself.
  void task_failed(const TaskFailure& failure);
  /// An srun has ended, the one of that index: who lives of its tasks is lost.
  void srun_ended(int index, int status);
  /// The nodes that the job of Slurm has: on those that are there again, or are new, processes
  /// start, as far as some are missing. `max_size`: of the job; `tasks`: of a new node.
  void offer_nodes(const std::vector<std::string>& nodes, int max_size, int tasks);
  /// Whether it is worth asking for them.
  bool wants_nodes(int max_size) const;
  /// Hosts say that so many ranks may run: processes start, or end once their ranks are given back.
  void aim_at(int size, const std::string& why);
  /// Kills those that the others have waited for long enough.
  void advance(Clock::time_point now);
  /// When `advance` has something to do even if nothing else happens.
  Deadline next() const { return parts_.recovery.next(); }

  /// No rank is left: what still lives are spares.
  bool is_over() const { return parts_.recovery.is_over(); }
  /// Has the spares killed, where others must do it.
  void dismiss_spares();
  /// The first loss, as told to the user; empty: none.
  const std::string& first_failure() const { return first_failure_; }

 private:
  /// Which srun has started it.
  int step_of(int process) const;
  std::size_t stream_of(int process) const {
    return static_cast<std::size_t>(parts_.is_by_srun ? step_of(process) : process);
  }
  bool has_ranks_elsewhere(int step) const;
  /// Starts processes on a node.
  void start_on(const std::string& host, int count);
  bool may_grow() const;
  Growth::Need need(int max_size) const;
  /// Starts the processes that are to come, as far as there are places for them.
  void start_wanted();
  /// Starts a process in the place of one that has ended; its number.
  int start_in_place_of(int process);
  /// Ends the processes that nobody needs any more.
  void end_surplus();
  /// Decides whether the process is started again, and has it done.
  void replace(Recovery::End& end);
  bool goes_on_without(const Recovery::End& end);
  void process_entered(const ProcessEntered& entered);
  void finish(int process);
  /// One that ended well by its exit code, but was lost by others.
  void lose(int process, bool is_there);
  void lose(Recovery::End end, bool is_there);
  void fail(int process, int code, const std::string& why, bool shows_lines);
  void say_last_lines(int process);
  /// No rank is left, and one of them was lost without a membership after it.
  void check_end();

  Parts parts_;
  std::string first_failure_;
  std::map<int, Clock::time_point> started_;  ///< By process that was started again.
  Clock::time_point begin_ = Clock::now();
  Growth growth_;
  bool are_dismissed_ = false;
  std::vector<int> steps_{0};  ///< By srun: the process that its task 0 is.
};

}  // namespace hvd
