// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "base/unique_fd.h"
#include "doubles/nccl/message.h"

namespace double_nccl {

/// One rank's connection with the star of its communicator, and the thread that reads it.
/// Thread-safe, except for stop() and the destructor.
class Spoke {
 public:
  Spoke() = default;
  Spoke(const Spoke&) = delete;
  Spoke& operator=(const Spoke&) = delete;
  ~Spoke();

  /// Connects and waits until all ranks are there, or an error, or abort().
  ncclResult_t join(const ncclUniqueId& id, const Hello& hello);
  /// Sends an operation with what this rank contributes. Its ticket.
  std::uint64_t send(const Operation& operation, const void* payload, std::size_t bytes);
  /// The star's answer. After an error this waits for abort(), as NCCL's kernels do; false then.
  bool wait(std::uint64_t ticket, Bytes& answer);
  /// As wait(), for the host: an error ends it.
  bool wait_or_fail(std::uint64_t ticket, Bytes& answer);
  /// Ends as an error what ranks wait for.
  void fail(ncclResult_t code, const std::string& text);
  void abort();
  /// abort(), and the end of the thread.
  void stop();
  bool is_aborted() const;
  /// Waits for abort().
  void wait_for_abort();
  /// Tells the others that this rank leaves in order; they have been told when it returns, since
  /// the process of the star may end then.
  void leave();
  ncclResult_t error() const;

 private:
  bool connect_to(const ncclUniqueId& id);
  void write(const Frame& frame, const void* payload);
  bool wait_until(std::uint64_t ticket, Bytes& answer, bool error_ends);
  void read_frames();
  bool read_bytes(void* to, std::size_t bytes);
  void take(const Frame& frame, Bytes payload);

  hvd::UniqueFd socket_;
  std::thread reader_;
  hvd::Mutex writing_;
  mutable hvd::Mutex mutex_;
  hvd::CondVar changed_;
  std::map<std::uint64_t, Bytes> answers_ HVD_GUARDED_BY(mutex_);
  std::uint64_t next_ticket_ HVD_GUARDED_BY(mutex_) = 1;
  ncclResult_t error_ HVD_GUARDED_BY(mutex_) = ncclSuccess;
  bool is_open_ HVD_GUARDED_BY(mutex_) = false;
  bool is_ready_ HVD_GUARDED_BY(mutex_) = false;
  bool is_aborted_ HVD_GUARDED_BY(mutex_) = false;
  bool somebody_left_ HVD_GUARDED_BY(mutex_) = false;
  bool is_over_ HVD_GUARDED_BY(mutex_) = false;  ///< Nobody reads any more.
};

}  // namespace double_nccl
