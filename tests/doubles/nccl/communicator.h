// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "doubles/nccl/controls.h"
#include "doubles/nccl/driver.h"
#include "doubles/nccl/message.h"
#include "doubles/nccl/spoke.h"

namespace double_nccl {

/// One operation as the caller gave it.
struct Call {
  Operation operation;
  const void* send = nullptr;
  std::size_t send_bytes = 0;
  void* receive = nullptr;  ///< Null: nothing comes to this rank.
};

/// What an ncclComm_t names. Shared by the API, the work in streams and the threads of both, since
/// work may outlive its communicator. Thread-safe; the API refuses two callers at once.
class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  Communicator(const Hello& hello, const CurrentGpu& gpu, bool blocking)
      : hello_(hello), gpu_(gpu), blocking_(blocking), rank_(hello.rank), size_(hello.size) {}
  ~Communicator();

  int rank() const { return rank_; }
  int size() const { return size_; }
  const CurrentGpu& gpu() const { return gpu_; }
  bool is_blocking() const { return blocking_; }
  /// ncclCommFinalize was called: only the end may follow.
  bool is_finalized() const { return finalized_; }
  void set_finalized() { finalized_ = true; }

  /// Runs `work` here and returns its outcome, or on a thread and returns ncclInProgress.
  ncclResult_t begin(std::function<ncclResult_t()> work);
  ncclResult_t connect(const ncclUniqueId& id);
  /// Puts the calls into the stream as one piece of work.
  ncclResult_t launch(const std::vector<Call>& calls, CUstream stream);
  /// A collective of the host: returns when all ranks have called it.
  ncclResult_t agree(const Operation& operation, Bytes& answer);
  /// Null: this rank is in no part.
  ncclResult_t split(const Operation& operation, const std::shared_ptr<Communicator>& child);

  /// What ncclCommGetAsyncError says: ncclInProgress a few times at least after a begin().
  ncclResult_t poll();
  ncclResult_t state();
  void set_outcome(ncclResult_t outcome);
  void abort();
  /// Waits until no work is in a stream; false: there is an error or abort().
  bool drain();
  void leave() { spoke_.leave(); }

  ncclRedOp_t add_scale(ncclDataType_t dtype, std::uint64_t bits);
  bool remove_scale(ncclRedOp_t op);
  /// False: no such operation, or of another type.
  bool read_op(ncclRedOp_t op, Operation& operation);

  /// True: nobody else is in a call on this communicator. end_call() follows then.
  bool begin_call();
  void end_call();

 private:
  struct Scale {
    ncclDataType_t dtype;
    std::uint64_t bits;
  };
  struct Work;
  static void CUDA_CB run(void* work);
  static void keep(std::unique_ptr<Work> work);
  void perform(const Work& work);
  bool take_turn(const Work& work);
  void end_turn(const Work& work);
  void run_kernel(const Work& work);
  void move_bytes(const Work& work);

  const Hello hello_;
  const CurrentGpu gpu_;
  const bool blocking_;
  std::atomic<bool> finalized_{false};
  std::atomic<int> rank_;  // of a part, they are known once the split is done
  std::atomic<int> size_;
  Spoke spoke_;
  std::thread background_;
  hvd::Mutex mutex_;
  hvd::CondVar changed_;
  ncclResult_t outcome_ HVD_GUARDED_BY(mutex_) = ncclSuccess;
  int polls_left_ HVD_GUARDED_BY(mutex_) = 0;
  std::uint64_t launched_ HVD_GUARDED_BY(mutex_) = 0;
  std::uint64_t turn_ HVD_GUARDED_BY(mutex_) = 0;
  bool is_running_ HVD_GUARDED_BY(mutex_) = false;
  bool is_called_ HVD_GUARDED_BY(mutex_) = false;
  std::map<int, Scale> scales_ HVD_GUARDED_BY(mutex_);
};
using CommunicatorPtr = std::shared_ptr<Communicator>;

/// What handles name: never given twice, so that a use after the end is found. Thread-safe.
class Handles {
 public:
  static Handles& get();

  ncclComm_t add(CommunicatorPtr communicator);
  /// Null: there is none, or no more.
  CommunicatorPtr find(ncclComm_t handle);
  void remove(ncclComm_t handle);

  /// A registration of a communicator; or a window, in a place that free_place() gave.
  void* add_registration(ncclComm_t owner, void* buffer, std::size_t bytes, int place = kNoWindow);
  bool remove_registration(ncclComm_t owner, void* handle, bool is_window);
  /// Where in the memory that ranks share a window would lie: the first gap that holds it. Each
  /// rank finds out for itself, as with NCCL, which needs it to be one place on all ranks.
  int free_place(ncclComm_t owner, std::size_t bytes);
  bool has_registrations(ncclComm_t owner);
  bool is_registered(ncclComm_t owner, const void* memory, std::size_t bytes);
  void add_allocation(void* memory, std::size_t bytes);
  bool is_allocated(const void* memory, std::size_t bytes);
  /// A complaint where it is still registered; false: it is not an allocation.
  bool remove_allocation(void* memory);
  int alive();

 private:
  static constexpr int kNoWindow = -1;
  struct Registration {
    ncclComm_t owner;
    void* buffer;
    std::size_t bytes;
    int place;
  };
  hvd::Mutex mutex_;
  std::uint64_t next_ HVD_GUARDED_BY(mutex_) = 1;
  std::map<ncclComm_t, CommunicatorPtr> communicators_ HVD_GUARDED_BY(mutex_);
  std::map<void*, Registration> registrations_ HVD_GUARDED_BY(mutex_);
  std::map<void*, std::size_t> allocations_ HVD_GUARDED_BY(mutex_);
};

}  // namespace double_nccl
