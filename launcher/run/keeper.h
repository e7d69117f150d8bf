// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <array>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "launcher/plan/command.h"

namespace hvd {

/// What the keeper tells hvdrun: a rank ended.
struct RankEnded {
  int index = 0;   ///< Into the commands.
  int status = 0;  ///< As waitpid gives it.
};

/// What hvdrun tells the keeper.
struct KeeperOrder {
  enum class Kind {
    kSignal,  ///< For every rank.
    kKill,    ///< One process, with all that it has started.
    kStart,   ///< It is started again, as the next one; with its output and error streams.
    kStep,    ///< One more srun, with its streams.
  };
  Kind kind = Kind::kSignal;
  int signal = 0;
  int index = 0;                 ///< Into the commands.
  std::array<char, 256> host{};  ///< Of LaterStep, as the others.
  int tasks = 0;
  int first_process = 0;
};

/// The ends of one rank's standard streams; -1: inherited.
struct RankStreams {
  UniqueFd input;
  UniqueFd output;
  UniqueFd error;
};

/// The process between hvdrun and the ranks. It is the ranks' parent and, as a child subreaper, the
/// parent of all orphans below them, in a session of its own. It reports each end over a socket and
/// hands on signals sent over it. When the socket closes, for whatever reason, it kills everything
/// below it, and every process with the job's marks, and ends. So nothing outlives hvdrun.
/// Immutable after construction.
class Keeper {
 public:
  /// Forks the keeper, which forks the ranks. Call before any thread exists. `streams` are closed
  /// in this process when it returns. `marks`: see kill_job_processes.
  /// `own_session` false: it stays in the process group, whose signals then reach the ranks.
  static Result<Keeper> start(const std::vector<Command>& commands,
                              std::vector<RankStreams> streams,
                              const std::vector<std::string>& marks, bool own_session = true);

  pid_t pid() const { return pid_; }
  /// Readable when a RankEnded waits; at end of file the keeper is gone.
  int socket() const { return socket_.get(); }
  /// The next report, without waiting; nothing when there is none. False: end of file.
  bool receive(std::vector<RankEnded>& ended);
  /// Sends `signal` to every rank that still runs; see signal_targets. SIGSTOP and SIGCONT go to
  /// all processes below the keeper.
  void send_signal(int signal);
  /// Kills the one process of an elastic job, if it lives, and all that it has started.
  void kill(int index);
  /// Starts the process of an elastic job again, as the one behind the last. Closes `streams`.
  void start_again(int index, RankStreams streams);
  /// Starts one more step of Slurm, beside that of the first command. Closes `streams`.
  void start_step(const LaterStep& step, RankStreams streams);
  /// Tells the keeper to kill what is left and to end.
  void release() { socket_.reset(); }

 private:
  void send_with(const KeeperOrder& order, RankStreams streams);

  Keeper(pid_t pid, UniqueFd socket) : pid_(pid), socket_(std::move(socket)) {}
  pid_t pid_;
  UniqueFd socket_;
};

}  // namespace hvd
