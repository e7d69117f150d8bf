// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "backends/mpi/mpi_library.h"
#include "backends/mpi/mpi_plan.h"
#include "base/deadline.h"
#include "base/environment.h"
#include "base/result.h"

namespace hvd {

/// This rank's MPI before the ranks have met: what it can tell the others, and the library behind.
struct MpiProbe {
  MpiFacts facts;
  std::unique_ptr<MpiLibrary> library;  ///< Null where facts.problem says why.
};

/// Looks for MPI in this process; opens one only where `wanted` (HVD_BACKEND) is "mpi":
/// `library_name` (HVD_MPI_LIBRARY), else one of the launcher's family.
MpiProbe probe_mpi(const Environment& environment, std::string_view wanted,
                   const std::string& library_name);

/// MPI as the plane between nodes: initialised, with a communicator of our own.
///
/// Ends MPI only where it has started it, and only after a job in which all ranks left together:
/// after mark_lost() no MPI function is called again, MPI_Finalize included, since each may wait
/// for a rank that is no more. Shared by the process, which marks it, and the links of every
/// process set. One thread at a time, except for mark_lost() and is_lost().
class MpiSession {
 public:
  /// Collective over all ranks of the job: starts MPI where it is not, and duplicates its world.
  static Result<std::shared_ptr<MpiSession>> open(std::unique_ptr<MpiLibrary> library, int rank,
                                                  int size, Deadline deadline);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  const MpiLibrary& library() const { return *library_; }
  /// Where the rank `world_rank` of the job is in MPI_COMM_WORLD.
  int mpi_rank_of(int world_rank) const { return mpi_ranks_[static_cast<std::size_t>(world_rank)]; }
  /// From now on no MPI function is called.
  void mark_lost() { lost_.store(true); }
  bool is_lost() const { return lost_.load(); }
  /// False after a loss, and after the program has finalised its MPI.
  bool may_call() const;

 private:
  MpiSession(std::unique_ptr<MpiLibrary> library, int rank)
      : library_(std::move(library)), rank_(rank) {}
  Status start(int size);
  Status duplicate(int rank, int size, Deadline deadline);
  Status finish(const char* what, Deadline deadline);

  std::unique_ptr<MpiLibrary> library_;
  int rank_;
  std::vector<int> mpi_ranks_;  // by rank of the job
  std::vector<int> job_ranks_;  // by rank of MPI_COMM_WORLD
  bool is_ours_ = false;        // we initialised MPI
  bool has_duplicate_ = false;
  std::atomic<bool> lost_{false};
};

}  // namespace hvd
