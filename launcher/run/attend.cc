// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/attend.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bootstrap/tcp_store.h"
#include "launcher/console/exit_code.h"
#include "launcher/console/message.h"
#include "launcher/run/end_causes.h"
#include "launcher/run/handled_signals.h"
#include "launcher/run/keeper.h"
#include "launcher/run/process_tree.h"
#include "topology/launch_env.h"
#include "transport/job_key.h"
#include "transport/socket_address.h"

namespace hvd {
namespace {

constexpr std::chrono::seconds kConnectTime{30};
constexpr std::chrono::seconds kTellTime{10};

Result<std::unique_ptr<TcpStore>> reach_store(const Environment& environment) {
  const auto address = environment.get(launch_env::kStore);
  const auto key = environment.get(launch_env::kJobKey);
  if (!address || !key) return error(Code::kInvalidArgument, "HVD_STORE or HVD_JOB_KEY is not set");
  HVD_TRY_ASSIGN(const JobKey job_key, JobKey::from_hex(*key));
  HVD_TRY_ASSIGN(const auto addresses, parse_addresses(*address));
  return TcpStore::connect(addresses, job_key, Deadline::after(kConnectTime));
}

class Attendant {
 public:
  Attendant(TcpStore& store, Keeper& keeper, EndCauses& causes, int signals)
      : store_(store), keeper_(keeper), causes_(causes), signals_(signals) {}

  /// How the process has ended; nothing: the keeper is gone.
  std::optional<int> await_end() {
    std::vector<RankEnded> ended;
    while (true) {
      std::array<pollfd, 3> waits{{{keeper_.socket(), POLLIN, 0},
                                   {signals_, POLLIN, 0},
                                   {has_store_ ? store_.descriptor() : -1, POLLIN, 0}}};
      (void)::poll(waits.data(), waits.size(), causes_.next().poll_timeout_ms());
      causes_.advance(Clock::now());
      if (waits[1].revents != 0) pass_over_signals();
      if (waits[2].revents != 0) take_order();
      if (waits[0].revents == 0) continue;
      const bool is_alive = keeper_.receive(ended);
      if (!ended.empty()) return ended.front().status;
      if (!is_alive) return std::nullopt;
    }
  }

 private:
  /// The process has got them as well.
  void pass_over_signals() {
    signalfd_siginfo info{};
    while (::read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    }
  }

  void take_order() {
    const auto order = store_.has_order();
    if (!order.is_ok()) {
      print_message(
          "this part of the job ends, as the hvdrun that started it is gone, or does "
          "not answer");
    }
    if (!order.is_ok() || order.value()) {
      has_store_ = false;  // Nothing more is to be heard.
      keeper_.kill(0);
    }
  }

  TcpStore& store_;
  Keeper& keeper_;
  EndCauses& causes_;
  int signals_;
  bool has_store_ = true;
};

/// Runs it to its end, and gives that.
Result<int> run_once(const Command& command, int process, const std::string& host, int signals,
                     EndCauses& causes, TcpStore& store) {
  HVD_TRY(store.attend(process, host, Deadline::after(kTellTime)));
  HVD_TRY_ASSIGN(Keeper keeper, Keeper::start({command}, std::vector<RankStreams>(1), {}, false));
  // The keeper of a process that is started again is forked beside the thread that listens: of what
  // that may hold it needs the heap alone, which fork() leaves in order.
  causes.listen_for({command});
  const auto status = Attendant(store, keeper, causes, signals).await_end();
  if (!status) kill_job_processes({}, Deadline::after(kTellTime));  // Its children are ours now.
  // What it has started ends with it.
  keeper.release();
  while (::waitpid(keeper.pid(), nullptr, 0) < 0 && errno == EINTR) {
  }
  return status.value_or(W_EXITCODE(0, SIGKILL));
}

Result<int> run_all(Command command, int process, const std::string& host, int signals,
                    TcpStore& store) {
  EndCauses causes;
  while (true) {
    HVD_TRY_ASSIGN(const int status, run_once(command, process, host, signals, causes, store));
    const auto told =
        store.ended(process, status, causes.explain(status, command), Deadline::after(kTellTime));
    if (!told.is_ok()) return exit_code_of(status);
    if (!told.value()) return 0;
    process = *told.value();
    command = restarted(command, process);
  }
}

}  // namespace

int attend(const Command& command, int process, const std::string& host,
           const Environment& environment) {
  const sigset_t signals = block_handled_signals();  // Before any thread could take them.
  (void)::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const UniqueFd signal_fd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  const auto store = reach_store(environment);
  const auto code = store.is_ok() ? run_all(command, process, host, signal_fd.get(), *store.value())
                                  : Result<int>(store.status());
  if (code.is_ok()) return code.value();
  print_message(code.status()
                    .with_context(format_text("process {} on {}, beside the hvdrun that started "
                                              "its job",
                                              process, host))
                    .message());
  return kExitFailure;
}

}  // namespace hvd
