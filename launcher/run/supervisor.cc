// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>

#include "launcher/console/exit_code.h"
#include "launcher/console/message.h"
#include "launcher/run/apart_note.h"
#include "launcher/run/elastic_job.h"
#include "launcher/run/end_causes.h"
#include "launcher/run/end_order.h"
#include "launcher/run/ending.h"
#include "launcher/run/handled_signals.h"
#include "launcher/run/keeper.h"
#include "launcher/run/loss_words.h"
#include "launcher/run/package_hint.h"
#include "launcher/run/process_tree.h"
#include "launcher/run/srun_report.h"
#include "launcher/run/step_signal.h"
#include "launcher/run/terminal.h"
#include "transport/poller.h"

namespace hvd {
namespace {

constexpr std::chrono::seconds kKeeperLimit{15};
constexpr std::chrono::milliseconds kLastWrites{1000};  ///< Of a job that was killed.
constexpr std::uint64_t kSignals = ~0ULL;
constexpr std::uint64_t kKeeper = ~0ULL - 1;
constexpr std::uint64_t kSinks = ~0ULL - 2;
constexpr std::uint64_t kElastic = ~0ULL - 3;
constexpr std::uint64_t kRoom = ~0ULL - 4;
constexpr std::uint64_t kLosses = ~0ULL - 5;
constexpr std::chrono::seconds kPatience{5};    ///< With a file system, without a word.
constexpr std::chrono::seconds kSparesTime{5};  ///< To end, for those that nobody needs.

/// The loop of `hvdrun`: one epoll over the ranks' pipes, the keeper's socket and our signals.
class Supervisor {
 public:
  Supervisor(const std::vector<Command>& commands, const SupervisorOptions& options,
             const RankChannels& channels)
      : commands_(commands),
        options_(options),
        losses_(channels.losses),
        store_(channels.store),
        room_(channels.room),
        events_(channels.events),
        ending_(options.grace),
        output_(options.output) {
    if (channels.recovery == nullptr) return;
    elastic_.emplace(ElasticJob::Parts{
        .recovery = *channels.recovery,
        .store = *channels.store,
        .ending = ending_,
        .output = output_,
        .restarts = *channels.restarts,
        .kill = [this](int process) { kill_process(process); },
        .start_again = [this](int lost, int successor) { start_again(lost, successor); },
        .start_step =
            [this](const LaterStep& step) {
              keeper_->start_step(step, add_command(later_srun(commands_.front(), step)));
            },
        .is_by_srun = options.output.style.from_srun});
  }

  Result<int> run() {
    HVD_TRY(watch_signals());
    const Status files = output_.start_files(commands_, [&](int done) { return wait_for(done); });
    if (ending_.is_told()) return leave(files);
    HVD_TRY(files);
    HVD_TRY(start());
    running_ = commands_to_start(commands_);
    while (running_ > 0 && !is_left_to_spares()) HVD_TRY(wait_and_serve());
    if (!options_.output.style.from_srun) events_.look_for_left(keeper_->pid());
    end_keeper();
    output_.drain_all();
    warn_of_hidden_failure();
    const std::string& cause = elastic_ ? elastic_->first_failure() : first_failure_;
    if (!cause.empty() && output_.has_more_since_mark()) {
      say(format_text("the cause, as said above: {}", cause));
    }
    output_.finish();
    flush();
    return exit_code();
  }

 private:
  Status watch_signals() {
    const sigset_t signals = block_handled_signals();
    (void)std::signal(SIGPIPE, SIG_IGN);
    (void)::prctl(PR_SET_CHILD_SUBREAPER, 1);  // When the keeper is killed, its orphans are ours.
    signals_.reset(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_.is_open()) return Status::system("signalfd", errno);
    HVD_TRY_ASSIGN(Poller poller, Poller::create());
    HVD_TRY(output_.watch_in(poller_.emplace(std::move(poller)), kSinks));
    return poller_->add(signals_.get(), kSignals);
  }

  /// Waits for a file system that may hang; false: a signal told us to leave instead.
  bool wait_for(int done) {
    Deadline patience = Deadline::after(kPatience);
    while (true) {
      std::array<pollfd, 2> waits{{{done, POLLIN, 0}, {signals_.get(), POLLIN, 0}}};
      (void)::poll(waits.data(), waits.size(), patience.poll_timeout_ms());
      if (waits[0].revents != 0) return true;
      if (waits[1].revents != 0 && was_told_to_leave()) return false;
      if (!patience.has_passed()) continue;
      patience = kForever;
      print_message("--output-dir: the file system does not answer (does it hang?); hvdrun waits");
    }
  }

  /// Ranks that succeeded are half of it: their output is the other.
  int exit_code() const {
    if (ending_.exit_code() != 0) return ending_.exit_code();
    if (output_.has_lost_reader()) return exit_code_of_signal(SIGPIPE);
    return output_.has_failed() ? kExitFailure : 0;
  }

  int leave(const Status& why) {
    print_message(why.message());
    return ending_.exit_code();
  }

  Status start() {
    std::vector<RankStreams> theirs(commands_.size());
    for (std::size_t i = 0; i < commands_.size(); ++i) {
      if (!commands_[i].takes_stdin || is_in_background()) {
        theirs[i].input.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
      }
      HVD_TRY(output_.add_streams(commands_[i], theirs[i].output, theirs[i].error));
    }
    HVD_TRY_ASSIGN(Keeper keeper, Keeper::start(commands_, std::move(theirs), options_.marks));
    keeper_.emplace(std::move(keeper));
    if (judges_ends()) causes_.listen_for(commands_);
    events_.launched(static_cast<int>(commands_.size()), options_.output.style.from_srun);
    if (losses_ != nullptr) losses_->close_writer();
    if (elastic_) HVD_TRY(poller_->add(store_->events(), kElastic));
    if (room_ != nullptr) HVD_TRY(poller_->add(room_->events(), kRoom));
    if (losses_ != nullptr && events_.is_watched())
      HVD_TRY(poller_->add_edge(losses_->reader(), kLosses));
    return poller_->add(keeper_->socket(), kKeeper);
  }

  Status wait_and_serve() {
    std::array<Poller::Event, 32> events{};
    HVD_TRY_ASSIGN(const std::size_t count, poller_->wait(events, next_deadline()));
    bool keeper_spoke = false;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t what = events[i].tag;
      if (what == kSignals) serve_signals();
      if (what == kKeeper) keeper_spoke = true;
      if (what == kSinks) serve_sinks();
      if (what == kElastic) elastic_->serve();
      if (what == kRoom) room_->tell(*elastic_);
      if (what == kLosses) read_losses();
      if (output_.is_stream(what)) output_.read(what);
    }
    for (const SrunNotice& notice : output_.take_notices()) serve_notice(notice);
    if (keeper_spoke) serve_keeper();
    if (judges_ends()) causes_.advance(Clock::now());
    HVD_TRY(output_.advance(Clock::now()));
    report_task_failure();
    for (const RankEnded& ended : ends_.take(Clock::now())) rank_ended(ended);
    if (elastic_) elastic_->advance(Clock::now());
    if (const auto signal = ending_.advance(Clock::now())) {
      if (options_.verbose) say(format_text("sending signal {} to the ranks that remain", *signal));
      send(*signal);
    }
    return Status::ok();
  }

  Deadline next_deadline() const {
    return ending_.next()
        .earlier(ends_.next())
        .earlier(task_failures_.next())
        .earlier(output_.next())
        .earlier(elastic_ ? elastic_->next() : kForever)
        .earlier(spares_go_by_)
        .earlier(judges_ends() ? causes_.next() : kForever);
  }

  /// Only ranks on this host are judged by what is known of it.
  bool judges_ends() const { return !options_.output.style.from_srun; }

  /// Nobody reads our output any more (`hvdrun ... | head`): the job ends as a filter does, unless
  /// it ends already.
  void serve_sinks() {
    if (!output_.lost_reader()) return;
    if (const auto signal = ending_.lost_reader(Clock::now())) send(*signal);
  }

  /// Waits until all is written: for a slow reader as long as it takes, but after a signal for the
  /// grace at most, and a signal that comes now ends the wait.
  void flush() {
    const auto grace = ending_.is_killed() ? std::min(options_.grace, kLastWrites) : options_.grace;
    const Deadline limit = ending_.is_told() ? Deadline::after(grace) : Deadline::forever();
    while (true) {
      serve_sinks();
      (void)output_.advance(Clock::now());
      if (output_.is_written() || limit.has_passed()) return;
      std::array<Poller::Event, 2> events{};
      const std::size_t count = poller_->wait(events, limit.earlier(output_.next())).value_or(0);
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t what = events[i].tag;
        if (what == kSignals && was_told_to_leave()) return;
      }
    }
  }

  /// The ranks are gone: a signal means that hvdrun is to go too.
  bool was_told_to_leave() {
    signalfd_siginfo info{};
    bool was_told = false;
    while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGTSTP) (void)::raise(SIGSTOP);
      if (signal == SIGUSR1 || signal == SIGUSR2 || signal == SIGTSTP) continue;
      (void)ending_.told_to_end(signal, Clock::now());
      was_told = true;
    }
    return was_told;
  }

  void serve_signals() {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGTSTP) stop();
      if (signal == SIGUSR1 || signal == SIGUSR2) send(signal);
      if (signal == SIGUSR1 || signal == SIGUSR2 || signal == SIGTSTP) continue;
      end_task_failures();  // what has failed before is the cause, not the signal
      const auto handed_on = ending_.told_to_end(signal, Clock::now());
      output_.stop_waiting();
      if (!handed_on) {
        if (signal != SIGHUP && !ending_.is_killed()) {
          say(
              format_text("got {} again within 1 s, which counts as once: the ranks go on to end; "
                          "once more kills them at once",
                          describe_end(signal)));
        }
        continue;
      }
      if (*handed_on != SIGKILL) {
        say(format_text("got {}: the ranks have {} s to end; once more kills them at once",
                        describe_end(signal), options_.grace.count() / 1000));
      }
      send(*handed_on);
    }
  }

  /// Ctrl-Z: the ranks, which are in another session, stop with us and go on with us.
  void stop() {
    send(SIGSTOP);
    const Clock::time_point begin = Clock::now();
    (void)::raise(SIGSTOP);
    ending_.was_stopped(Clock::now() - begin);
    send(SIGCONT);
  }

  void serve_keeper() {
    std::vector<RankEnded> ended;
    const bool alive = keeper_->receive(ended);
    // What a rank said before its end is there to read by now.
    if (losses_ != nullptr) read_losses();
    for (const RankEnded& report : ended) {
      const auto index = static_cast<std::size_t>(report.index);
      events_.ended(report.index, report.status);
      if (elastic_) {
        elastic_process_ended(report);
        continue;
      }
      ends_.ended(report, Clock::now());
      const std::string& how = ways_of_end_[index] = describe_end(report.status);
      const Command& command = commands_[index];
      if (store_ != nullptr && command.rank) store_->rank_ended(*command.rank, command.host, how);
    }
    if (!alive && running_ > 0) keeper_lost();
  }

  void read_losses() {
    for (const auto& [by, lost] : losses_->read()) {
      if (by < 0 || static_cast<std::size_t>(by) >= commands_.size()) continue;
      ends_.loses(by, lost);
      events_.rank_said(by, lost);
    }
  }

  /// Spares end with the ranks: those that are children of ours by the keeper, those on other nodes
  /// on demand, and srun after them.
  bool is_left_to_spares() {
    if (!elastic_ || !elastic_->is_over()) return false;
    if (!options_.output.style.from_srun) return true;
    if (spares_go_by_.is_forever()) {
      elastic_->dismiss_spares();
      spares_go_by_ = Deadline::after(kSparesTime);
    }
    return spares_go_by_.has_passed();
  }

  void kill_process(int process) {
    if (options_.output.style.from_srun) return store_->kill(process);
    keeper_->kill(process);
  }

  /// Those of a step are started again by the hvdrun that was beside them.
  void start_again(int process, int successor) {
    if (options_.output.style.from_srun) return store_->answer_end(process, successor);
    if (successor < 0) return;
    keeper_->start_again(
        process, add_command(restarted(commands_[static_cast<std::size_t>(process)], successor)));
  }

  /// One more command that the keeper is about to start; where it writes.
  RankStreams add_command(Command command) {
    commands_.push_back(std::move(command));
    RankStreams streams;
    const Status added = output_.add_streams(commands_.back(), streams.output, streams.error);
    if (!added.is_ok()) say(added.message());  // It then writes nowhere.
    ++running_;
    return streams;
  }

  void elastic_process_ended(const RankEnded& ended) {
    --running_;
    if (options_.output.style.from_srun) return elastic_->srun_ended(ended.index, ended.status);
    elastic_->serve();  // What came before.
    elastic_->process_ended(ended.index, ended.status, way_of_end(ended));
  }

  std::string way_of_end(const RankEnded& ended) {
    const Command& command = commands_[static_cast<std::size_t>(ended.index)];
    return describe_end(ended.status) + causes_.explain(ended.status, command);
  }

  void rank_ended(const RankEnded& ended) {
    --running_;
    const auto index = static_cast<std::size_t>(ended.index);
    output_.drain(index);
    for (const SrunNotice& notice : output_.take_notices()) serve_notice(notice);
    end_task_failures();
    const int code = exit_code_of(ended.status);
    const Command& command = commands_[index];
    if (code == 0 || !ending_.rank_failed(code, Clock::now())) return;
    output_.stop_waiting();
    if (command.rank) {
      report_first_failure(index, *command.rank, command.host, way_of_end(ended));
    } else {
      say(format_text("{} on {} failed: {}", describe_command(command), command.host,
                      describe_end(ended.status)));
    }
  }

  /// What srun, or the hvdrun in its task 0, says to us.
  void serve_notice(const SrunNotice& notice) {
    if (notice.text.starts_with(kStepLine)) {
      steps_.push_back(notice.text.substr(kStepLine.size()));
      events_.step_started(steps_.back());
      return;
    }
    auto failure = parse_task_failure(notice.text);
    if (!failure) return;
    failure->rank += notice.first_process;
    if (elastic_) {
      elastic_->task_failed(*failure);
    } else {
      task_failures_.told(*failure, Clock::now());
    }
  }

  void end_task_failures() {
    task_failures_.end();
    report_task_failure();
  }

  void report_task_failure() {
    const auto failure = task_failures_.take(Clock::now());
    if (!failure || !ending_.rank_failed(failure->exit_code, Clock::now())) return;
    output_.stop_waiting();
    output_.drain(0);
    report_first_failure(0, failure->rank, failure->host, failure->what);
  }

  /// The rank for which another one gave up, where that one did not fail itself; "": there is none.
  std::string lost_before(int rank) const {
    const auto lost = ends_.first_loss_of(rank);
    if (!lost) return {};
    const auto index = static_cast<std::size_t>(*lost);
    if (index >= commands_.size()) return {};
    const auto end = ways_of_end_.find(index);
    return describe_lost_rank(*lost, commands_[index].host,
                              end == ways_of_end_.end() ? "" : end->second);
  }

  /// A program whose exit code a shell has hidden.
  void warn_of_hidden_failure() {
    const auto loss = ends_.any_loss();
    if (!loss || ending_.exit_code() != 0 || ending_.is_told()) return;
    say(hidden_failure_warning(loss->first, loss->second));
  }

  void report_first_failure(std::size_t index, int rank, const std::string& host,
                            const std::string& what) {
    const std::string cause = lost_before(rank);
    if (cause.empty()) {
      say(format_text("rank {} on host {} failed first: {}", rank, host, what));
    } else {
      say(format_text("{}; rank {} on host {} failed then: {}", cause, rank, host, what));
    }
    first_failure_ =
        cause.empty() ? format_text("rank {} on host {}, {}", rank, host, what) : cause;
    output_.say_last_lines(index, rank);
    const std::string hint =
        package_hint(output_.last_lines(index, rank), ranks_program(commands_[index]));
    if (!hint.empty()) say(hint);
    if (running_ > 0) {
      say(format_text("the other ranks have {} s to end by themselves",
                      options_.grace.count() / 1000));
    }
    output_.mark();
  }

  /// Somebody killed the keeper: its children are ours now, and nobody reports their ends.
  void keeper_lost() {
    say("the keeper process of this job was killed: ending the job");
    (void)ending_.rank_failed(exit_code_of_signal(SIGKILL), Clock::now());
    kill_job_processes(options_.marks, Deadline::after(kKeeperLimit));
    running_ = 0;
  }

  void end_keeper() {
    keeper_->release();
    // It limits itself: see kSweepLimit there.
    while (::waitpid(keeper_->pid(), nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  void send(int signal) {
    if (!keeper_) return;
    if (!options_.output.style.from_srun) {
      keeper_->send_signal(signal);
      return;
    }
    // A step that is not known yet starts: srun itself is never stopped.
    if (steps_.empty() && (signal == SIGSTOP || signal == SIGCONT)) return;
    // SIGTERM makes srun kill the tasks at once; a step gets other signals through Slurm.
    if (signal == SIGKILL || steps_.empty()) {
      keeper_->send_signal(SIGTERM);
      return;
    }
    if (!signal_steps(steps_, signal)) keeper_->send_signal(SIGTERM);
  }

  void say(const std::string& text) { output_.say(text); }

  std::vector<Command> commands_;
  const SupervisorOptions& options_;
  LossPipe* losses_;  ///< May be null: srun's tasks are not children of ours.
  JobStore* store_;   ///< Likewise, except in an elastic job.
  Room* room_;        ///< Of a job that may grow.
  JobEvents events_;
  EndOrder ends_;
  TaskFailureOrder task_failures_;
  Ending ending_;
  EndCauses causes_;
  std::optional<Poller> poller_;
  UniqueFd signals_;
  JobOutput output_;
  std::optional<Keeper> keeper_;
  std::optional<ElasticJob> elastic_;
  Deadline spares_go_by_ = kForever;  ///< Of srun, once no rank is left.
  std::size_t running_ = 0;
  std::map<std::size_t, std::string> ways_of_end_;  ///< By index of the command.
  std::string first_failure_;                       ///< As told to the user; empty: none.
  std::vector<std::string> steps_;  ///< "JOB.STEP" of each srun that is known (yet).
};

}  // namespace

Result<int> supervise(const std::vector<Command>& commands, const SupervisorOptions& options,
                      const RankChannels& channels) {
  return Supervisor(commands, options, channels).run();
}

}  // namespace hvd
