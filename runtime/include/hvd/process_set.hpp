// SPDX-License-Identifier: Apache-2.0
/// Process sets: header only, over the C interface in hvd.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hvd/collectives.hpp"

namespace hvd {

/// Some ranks of the job, which may do collectives among themselves: pass id() to them.
/// Adding and removing is for every rank of the job, also those that are not in the set.
class ProcessSet {
 public:
  /// Waits for the other ranks; negative: no limit.
  static ProcessSet add(std::span<const std::int32_t> ranks, double timeout_seconds = -1) {
    std::int32_t id = 0;
    check(hvd_process_set_add(ranks.data(), static_cast<std::uint32_t>(ranks.size()),
                              timeout_seconds, &id));
    return ProcessSet(id);
  }
  /// The set of the MPI communicator that this rank is in (MPI_COMM_NULL: none); every rank of the
  /// job calls it with its own, as hvd_process_set_add_mpi() says.
  template <typename MpiComm>
  static ProcessSet add_mpi(const MpiComm& communicator, double timeout_seconds = -1) {
    std::int32_t id = 0;
    // NOLINTNEXTLINE(bugprone-sizeof-expression): of the handle, which may be a pointer
    check(hvd_process_set_add_mpi(&communicator, sizeof(MpiComm), timeout_seconds, &id));
    return ProcessSet(id);
  }
  /// One that is there: 0 is that of all ranks.
  explicit ProcessSet(std::int32_t id = 0) : id_(id) {}

  void remove(double timeout_seconds = -1) const {
    check(hvd_process_set_remove(id_, timeout_seconds));
  }

  /// This rank has no more data for the set; see hvd_join(). The last rank to join.
  int join(bool active_average = false, double timeout_seconds = -1) const {
    std::int32_t last = -1;
    check(hvd_join(id_, active_average ? 1 : 0, timeout_seconds, &last));
    return last;
  }

  std::int32_t id() const { return id_; }
  int size() const { return hvd_process_set_size(id_); }
  /// Place of this rank in the set; -1 when it is not in it.
  int rank() const { return hvd_process_set_rank(id_); }
  bool has_me() const { return rank() >= 0; }
  /// Ranks of the job, ascending.
  std::vector<std::int32_t> ranks() const {
    std::uint32_t count = 0;
    check(hvd_process_set_ranks(id_, nullptr, 0, &count));
    std::vector<std::int32_t> list(count);
    check(hvd_process_set_ranks(id_, list.data(), count, &count));
    return list;
  }

 private:
  std::int32_t id_;
};

}  // namespace hvd
