// SPDX-License-Identifier: Apache-2.0
#include "c/process.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

#include "base/environment.h"
#include "base/format.h"
#include "base/log.h"
#include "base/mutex.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/kept_meeting.h"
#include "bootstrap/store_message.h"
#include "c/backend_table.h"
#include "c/loss_notice.h"
#include "topology/launch_env.h"

namespace hvd {

namespace {

using namespace std::chrono_literals;

// At exit with code 0: long enough for ranks that end together, short enough not to annoy.
constexpr std::chrono::seconds kExitPatience = 2s;
// Of a handle: those that one engine gives out; above them the number of the engine.
constexpr int kHandleBits = 40;

}  // namespace

struct Process::State {
  /// One init or shutdown at a time; never held by anything that a fork must not interrupt.
  Mutex changing;
  /// Guards `engine` for the moment of a pointer copy; held over fork().
  mutable Mutex mutex;
  std::shared_ptr<Engine> engine HVD_GUARDED_BY(mutex);
  /// Shared with its links; ends, and MPI with it where hvd started it, with the last of both.
  std::shared_ptr<MpiSession> mpi HVD_GUARDED_BY(changing);
  std::string farewell HVD_GUARDED_BY(mutex);
  std::uint64_t starts HVD_GUARDED_BY(changing) = 0;
  KeptMeeting meeting HVD_GUARDED_BY(changing);
  /// From the first start on: events of frameworks may outlive an engine.
  std::unique_ptr<Gpus> gpus HVD_GUARDED_BY(changing);
  /// Keeps the memory that the user still holds mapped, also after the engine has gone.
  std::map<void*, std::shared_ptr<SharedArena>> allocated HVD_GUARDED_BY(mutex);
  /// Set in the child of a fork. Looked at before any lock.
  std::atomic<bool> forked{false};

  void before_fork() HVD_THREAD_ANNOTATION(no_thread_safety_analysis) { mutex.lock(); }
  void in_parent() HVD_THREAD_ANNOTATION(no_thread_safety_analysis) { mutex.unlock(); }
  void in_child() HVD_THREAD_ANNOTATION(no_thread_safety_analysis) {
    if (engine != nullptr) {
      forked.store(true);
      engine->abandon_after_fork();
    }
    mutex.unlock();
  }

  std::string farewell_of(int exit_code) const {
    Lock lock(mutex);
    if (!farewell.empty()) return farewell;
    return format_text("its program ended with exit code {}", exit_code);
  }
  std::shared_ptr<Engine> current() const {
    Lock lock(mutex);
    return engine;
  }
  /// Calls of other threads find the engine until it has left.
  Status leave(Deadline deadline) HVD_REQUIRES(changing) {
    const std::shared_ptr<Engine> leaving = current();
    if (leaving == nullptr) return Status::ok();
    Status status = leaving->shutdown(deadline);
    if (mpi != nullptr && !leaving->left_together()) mpi->mark_lost();
    mpi = nullptr;
    Lock lock(mutex);
    engine = nullptr;
    return status;  // the engine itself ends here, or with the last call that still uses it
  }
};

namespace {

void at_exit(int exit_code, void*) { Process::instance().end(exit_code); }

/// The GPUs of the process. Drivers, and NCCL with its copy of CUDA's runtime, end at the exit of
/// the program, before what was registered before they began: so the job is left once more at
/// places that come earlier.
class ProcessGpus final : public Gpus {
 public:
  explicit ProcessGpus(std::unique_ptr<Gpus> gpus) : gpus_(std::move(gpus)) {}

  Result<Gpu*> open(Device device) override {
    auto gpu = gpus_->open(device);
    static const int registered = ::on_exit(at_exit, nullptr);
    static_cast<void>(registered);
    return gpu;
  }
  Result<int> count() override { return gpus_->count(); }
  void note_library() override {
    static const int registered = ::on_exit(at_exit, nullptr);
    static_cast<void>(registered);
  }

 private:
  std::unique_ptr<Gpus> gpus_;
};

Status forked_child() {
  return error(Code::kAborted,
               "process {} was forked from a rank after hvd_init(); it is not a rank itself. Call "
               "hvd only in the process that called hvd_init(), or start helpers with spawn",
               static_cast<long>(::getpid()));
}

Status not_initialised() {
  return Status(Code::kAborted, "hvd is not initialised: call hvd.init() first (C: hvd_init())");
}

Result<std::shared_ptr<Engine>> start_engine(Wiring wiring, const MpiPlane& mpi,
                                             const EngineOptions& options,
                                             const std::vector<std::vector<int>>& sets,
                                             bool may_have_shrunk, Deadline deadline) {
  const int size = wiring.size;
  HVD_TRY_ASSIGN(std::shared_ptr<Engine> engine,
                 Engine::start(std::move(wiring), job_backends(mpi), options));
  for (const std::vector<int>& ranks : sets) {
    const bool fits =
        std::all_of(ranks.begin(), ranks.end(), [&](int rank) { return rank < size; });
    // What has become the set of all ranks is there already.
    const bool is_whole = fits && static_cast<int>(ranks.size()) == size;
    if (may_have_shrunk && (!fits || is_whole)) continue;
    HVD_TRY(engine->add_process_set(ranks, deadline).status());
  }
  return engine;
}

}  // namespace

Process& Process::instance() {
  static Process* const process = new Process();
  return *process;
}

Process::Process() : state_(new State()) {
  static State* const state = state_;  // for the handlers, which take no argument
  ::pthread_atfork([] { state->before_fork(); }, [] { state->in_parent(); },
                   [] { state->in_child(); });
  ::on_exit(at_exit, nullptr);
}

Status Process::start(const Environment& environment, const Settings& settings) {
  if (state_->forked.load()) return forked_child();
  Lock changing(state_->changing);
  if (is_running()) return Status::ok();

  const auto table = backend_table();
  BootstrapOptions options;
  options.deadline = Deadline::after(settings.meeting.start_timeout);
  options.memory_bytes = [table](int local_size) { return node_memory_bytes(table, local_size); };
  options.settings = settings.meeting;
  options.arena_bytes = settings.arena_bytes;
  options.kept = &state_->meeting;
  MpiProbe probe = probe_mpi(environment, settings.engine.backend, settings.mpi_library);
  options.mpi = encode(probe.facts);
  HVD_TRY_ASSIGN(Wiring wiring, bootstrap(environment, options));
  if (wiring.rank == 0 && !settings.notice.empty()) {
    log(LogLevel::kWarning, "stall", "{}", settings.notice);
  }
  // A spare has waited as long as others needed none.
  if (state_->meeting.epoch != 0)
    options.deadline = Deadline::after(options.settings.start_timeout);
  HVD_TRY_ASSIGN(const MpiPlane mpi, open_mpi_plane(std::move(probe), wiring, *options.deadline));
  if (state_->gpus == nullptr) {
    state_->gpus = std::make_unique<ProcessGpus>(find_gpus(settings.engine.gpu_driver));
  }
  EngineOptions engine_options = settings.engine;
  engine_options.gpus = state_->gpus.get();
  engine_options.first_handle = (state_->starts++ << kHandleBits) + 1;
  const auto notice = loss_notice(environment, wiring.rank);
  engine_options.on_loss = [notice, session = mpi.session, first_lost = &state_->meeting.lost](
                               int lost, bool has_left) {
    int nobody = store_message::kNobody;
    if (!has_left) (void)first_lost->compare_exchange_strong(nobody, lost);
    if (session != nullptr) session->mark_lost();
    if (notice) notice(lost);
  };
  auto started = start_engine(std::move(wiring), mpi, engine_options, settings.process_sets,
                              state_->meeting.epoch > 1, *options.deadline);
  if (!started.is_ok()) {
    if (mpi.session != nullptr) mpi.session->mark_lost();  // the others may have started
    return started.status();
  }
  if (notice) notice(launch_env::kNobodyLost);  // a job that was elastic enough goes on
  std::shared_ptr<Engine> engine = std::move(started).value();
  state_->mpi = mpi.session;
  Lock lock(state_->mutex);
  state_->engine = std::move(engine);
  return Status::ok();
}

Status Process::stop(Deadline deadline) {
  if (state_->forked.load()) return Status::ok();
  Lock changing(state_->changing);
  return state_->leave(deadline);
}

void Process::end(int exit_code) {
  if (state_->forked.load()) return;
  if (exit_code != 0) {
    // No more than a farewell: the others learn of the end when the launcher does, not before.
    const std::shared_ptr<Engine> engine = state_->current();
    if (engine == nullptr) return;
    engine->leave_farewell(state_->farewell_of(exit_code));
    static_cast<void>(engine->stop_timeline());  // what failed last is what one looks for
    return;
  }
  // Held: another thread still waits for ranks in init or shutdown, and ends with the process.
  if (!state_->changing.try_lock()) return;
  static_cast<void>(state_->leave(Deadline::after(kExitPatience)));
  state_->changing.unlock();
}

void Process::set_farewell(const std::string& cause) {
  if (state_->forked.load()) return;
  Lock lock(state_->mutex);
  state_->farewell = cause;
}

void Process::abort(const std::string& cause) {
  if (state_->forked.load()) return;
  const std::shared_ptr<Engine> engine = state_->current();
  if (engine != nullptr) engine->abort(cause);
}

Result<void*> Process::allocate(std::size_t bytes) {
  HVD_TRY_ASSIGN(const auto running, engine());
  std::shared_ptr<SharedArena> arena = running->arena();
  auto allocated = arena->allocate(bytes);
  if (!allocated.is_ok()) {
    return allocated.status().with_context(
        format_text("rank {}: hvd_alloc", running->world().rank));
  }
  void* const memory = allocated.value();
  Lock lock(state_->mutex);
  state_->allocated.emplace(memory, std::move(arena));
  return memory;
}

Status Process::deallocate(void* memory) {
  if (state_->forked.load()) return forked_child();
  std::shared_ptr<SharedArena> arena;
  {
    Lock lock(state_->mutex);
    const auto found = state_->allocated.find(memory);
    if (found == state_->allocated.end()) {
      return error(Code::kInvalidArgument,
                   "hvd_free: the memory is not of hvd_alloc(), or was freed before");
    }
    arena = std::move(found->second);
    state_->allocated.erase(found);
  }
  arena->deallocate(memory);
  return Status::ok();
}

bool Process::is_forked_child() const { return state_->forked.load(); }

bool Process::came_late() {
  if (!state_->changing.try_lock()) return false;
  const bool came_late = state_->meeting.came_late;
  state_->changing.unlock();
  return came_late;
}

bool Process::has_newcomers() {
  if (state_->forked.load() || !state_->changing.try_lock()) return false;
  KeptMeeting& kept = state_->meeting;
  if (kept.store != nullptr && !kept.has_newcomers) {
    const auto found = kept.store->has_newcomers();
    kept.has_newcomers = found.is_ok() && found.value();
    if (!found.is_ok() || found.value()) kept.store.reset();
  }
  const bool has_newcomers = kept.has_newcomers;
  state_->changing.unlock();
  return has_newcomers;
}

bool Process::is_running() const {
  Lock lock(state_->mutex);
  return state_->engine != nullptr;
}

Result<std::shared_ptr<Engine>> Process::engine() const {
  if (state_->forked.load()) return forked_child();
  std::shared_ptr<Engine> running = state_->current();
  if (running == nullptr) return not_initialised();
  return running;
}

Result<std::shared_ptr<const Engine>> Process::identity() const {
  // The child of a fork keeps the pointer: nothing in it starts or stops an engine.
  std::shared_ptr<const Engine> known = state_->current();
  if (known == nullptr) return not_initialised();
  return known;
}

}  // namespace hvd
