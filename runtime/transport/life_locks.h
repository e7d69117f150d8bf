// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

namespace hvd {

/// A file without a name, of which each process of a node keeps one byte locked while it lives.
///
/// The kernel frees a record lock (fcntl) when its process ends, however it ends, and no sooner: a
/// forked child does not inherit the lock, and a stopped process keeps it. No pidfd and no process
/// number is needed, so it works in every PID name space. A process must open the file once only:
/// it loses its lock when it closes any descriptor of the file.
/// Immutable after construction.
class LifeLocks {
 public:
  /// No file: nobody is seen to end.
  LifeLocks() = default;
  explicit LifeLocks(UniqueFd file) : file_(std::move(file)) {}
  static Result<LifeLocks> create();

  bool is_open() const { return file_.is_open(); }
  int fd() const { return file_.get(); }
  /// Locks the byte of this process until it ends, or this object does.
  Status lock(int local_rank) const;
  /// True when the process of another local rank has ended; it must have locked its byte before.
  bool has_ended(int local_rank) const;
  /// The number of that process as this one sees it; 0 where it has ended, or is not visible here.
  long pid_of(int local_rank) const;

 private:
  UniqueFd file_;
};

}  // namespace hvd
