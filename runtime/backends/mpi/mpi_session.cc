// SPDX-License-Identifier: Apache-2.0
#include "backends/mpi/mpi_session.h"

#include <sched.h>

#include <chrono>

#include "backends/mpi/wait_notice.h"
#include "bootstrap/local_host.h"

namespace hvd {
namespace {

// MPI_Init_thread and MPI_Finalize take no deadline, and must not be left half-way.
constexpr std::chrono::seconds kNoticePeriod{10};

Status look_into(const MpiLibrary& library, bool is_wanted, MpiFacts& facts) {
  HVD_TRY_ASSIGN(const hvd_mpi_state state, library.state());
  facts.library = state.library;
  if (state.finalized != 0) {
    return error(Code::kUnsupported,
                 "{} was finalised in this process, and MPI starts once only; start it in the "
                 "program, before the first start of hvd, and end it after the last",
                 facts.library);
  }
  if (state.initialized == 0 && !is_wanted) {
    return error(Code::kUnsupported,
                 "the program has not initialised MPI; HVD_BACKEND=mpi takes it all the same");
  }
  facts.is_initialised = state.initialized != 0;
  facts.is_thread_multiple = state.is_thread_multiple != 0;
  facts.thread_level = state.thread_level;
  facts.size = state.size;
  facts.rank = state.rank;
  return Status::ok();
}

}  // namespace

MpiProbe probe_mpi(const Environment& environment, std::string_view wanted,
                   const std::string& library_name) {
  MpiProbe probe;
  probe.facts.is_wanted = wanted == "mpi";
  if (!wanted.empty() && !probe.facts.is_wanted) {
    probe.facts.problem = format_text("HVD_BACKEND={} is set", wanted);
    return probe;
  }
  auto library = MpiLibrary::in_process();
  if (library.is_ok() && library.value() == nullptr && probe.facts.is_wanted) {
    library = MpiLibrary::open(environment, library_name);
  }
  if (!library.is_ok()) {
    probe.facts.problem = library.status().message();
    return probe;
  }
  if (library.value() == nullptr) {
    probe.facts.problem = "the program has no MPI; HVD_BACKEND=mpi takes one all the same";
    return probe;
  }
  const Status usable = look_into(*library.value(), probe.facts.is_wanted, probe.facts);
  if (!usable.is_ok()) {
    probe.facts.problem = usable.message();
    return probe;
  }
  probe.facts.fabric = find_fabric("/sys");
  probe.library = std::move(library).value();
  return probe;
}

Result<std::shared_ptr<MpiSession>> MpiSession::open(std::unique_ptr<MpiLibrary> library, int rank,
                                                     int size, Deadline deadline) {
  std::shared_ptr<MpiSession> session(new MpiSession(std::move(library), rank));
  Status status = session->start(size);
  if (status.is_ok()) status = session->duplicate(rank, size, deadline);
  if (status.is_ok()) return session;
  session->mark_lost();  // the others may be anywhere in their part of it
  return status.with_context(format_text("rank {}: HVD_BACKEND=tcp does without MPI", rank));
}

Status MpiSession::start(int size) {
  HVD_TRY_ASSIGN(hvd_mpi_state state, library_->state());
  if (state.initialized == 0) {
    const WaitNotice notice(
        format_text("rank {} on {} is in MPI_Init_thread of {}; do all ranks run, and does its own "
                    "mpirun start them? HVD_BACKEND=tcp does without MPI",
                    rank_, local_host_name(), state.library),
        kNoticePeriod);
    HVD_TRY(library_->check(library_->calls().init(library_->mpi()), "cannot initialise MPI"));
    is_ours_ = true;
    HVD_TRY_ASSIGN(state, library_->state());
  }
  if (state.is_thread_multiple == 0) {
    return error(Code::kUnsupported,
                 "{} gives {} and no more; the MPI plane needs "
                 "MPI_THREAD_MULTIPLE",
                 state.library, state.thread_level);
  }
  if (state.size == size) return Status::ok();
  return error(Code::kUnsupported,
               "{} started a world of {} where the job has {} ranks: start the program with that "
               "MPI's own mpirun, or with `srun --mpi=...` as it needs",
               state.library, state.size, size);
}

Status MpiSession::duplicate(int rank, int size, Deadline deadline) {
  const hvd_mpi_plugin& calls = library_->calls();
  HVD_TRY(library_->check(calls.begin_duplicate(library_->mpi()), "cannot duplicate MPI's world"));
  HVD_TRY(finish("the other ranks to duplicate MPI's world", deadline));
  has_duplicate_ = true;
  job_ranks_.assign(static_cast<std::size_t>(size), -1);
  HVD_TRY(library_->check(calls.begin_allgather(library_->mpi(), rank, job_ranks_.data()),
                          "cannot exchange ranks over MPI"));
  HVD_TRY(finish("the ranks of the others over MPI", deadline));
  mpi_ranks_.assign(static_cast<std::size_t>(size), -1);
  for (int place = 0; place < size; ++place) {
    const int job_rank = job_ranks_[static_cast<std::size_t>(place)];
    if (job_rank < 0 || job_rank >= size || mpi_rank_of(job_rank) >= 0) {
      return error(Code::kInternal, "rank {} of MPI_COMM_WORLD calls itself rank {} of {}", place,
                   job_rank, size);
    }
    mpi_ranks_[static_cast<std::size_t>(job_rank)] = place;
  }
  return Status::ok();
}

Status MpiSession::finish(const char* what, Deadline deadline) {
  for (;;) {
    int done = 0;
    HVD_TRY(library_->check(library_->calls().test(library_->mpi(), &done), what));
    if (done != 0) return Status::ok();
    if (deadline.has_passed()) return error(Code::kTimeout, "waited in vain for {}", what);
    sched_yield();
  }
}

bool MpiSession::may_call() const {
  if (is_lost()) return false;
  const auto state = library_->state();
  return state.is_ok() && state.value().initialized != 0 && state.value().finalized == 0;
}

MpiSession::~MpiSession() {
  if (!may_call()) return;
  if (has_duplicate_) library_->calls().free_duplicate(library_->mpi());
  if (!is_ours_) return;
  const WaitNotice notice(
      format_text("rank {} on {} is in MPI_Finalize, after hvd has ended well; the process may be "
                  "ended, nothing is lost. HVD_BACKEND=tcp does without MPI",
                  rank_, local_host_name()),
      kNoticePeriod);
  library_->calls().finalize(library_->mpi());
}

}  // namespace hvd
