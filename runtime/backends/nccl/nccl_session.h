// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "backends/nccl/nccl_holdings.h"
#include "backends/nccl/stall_report.h"
#include "collective/backend.h"
#include "device/timed_call.h"

namespace hvd {

/// How long a failure of the system may be due to another rank, which the host tells of.
inline constexpr std::chrono::milliseconds kDoubtTime{500};

/// A thread of ours tells the engine that the device has come to a point, as long as there is one.
class NcclBell {
 public:
  explicit NcclBell(const Doorbell* doorbell) : doorbell_(doorbell) {}
  void ring() {
    Lock lock(mutex_);
    if (doorbell_ != nullptr) doorbell_->ring_self();
  }
  void close() {
    Lock lock(mutex_);
    doorbell_ = nullptr;
  }

 private:
  Mutex mutex_;
  const Doorbell* doorbell_ HVD_GUARDED_BY(mutex_);
};

/// What the tasks of one process set share: a communicator, a stream, a bucket, and whose turn it
/// is to use them. Engine thread only.
class NcclSession {
 public:
  explicit NcclSession(const BackendContext& context)
      : context_(context),
        board_(context.memory, context.communicator.local_rank),
        bell_(std::make_shared<NcclBell>(context.doorbell)) {}
  NcclSession(const NcclSession&) = delete;
  NcclSession& operator=(const NcclSession&) = delete;
  ~NcclSession();

  const BackendContext& context() const { return context_; }
  const NcclSettings& settings() const { return context_.gpu.nccl; }

  /// Loads NCCL and opens the GPU of this rank.
  Status open(Device device);
  /// Begins to make the communicator, which then has to settle; all after open().
  Status begin(const ncclUniqueId& id);

  /// What the ranks have agreed on; none before they have.
  std::optional<bool> reduces_float8() const { return reduces_float8_; }
  void set_reduces_float8(bool all_do) { reduces_float8_ = all_do; }

  bool is_open() const { return library_.has_value(); }
  const NcclLibrary& library() const { return *library_; }
  Gpu& gpu() const { return *gpu_; }
  StreamHandle stream() const { return holdings_->stream(); }
  NcclCommunicator& communicator() { return holdings_->communicator(); }
  NcclBucket& bucket() { return holdings_->bucket(); }
  /// As the bucket, of this rank alone.
  NcclBucket& spare() { return holdings_->spare(); }
  /// NCCL itself runs the operations of different communicators in the order of their launches.
  bool nccl_keeps_order() const {
    return settings().wants_order && library_->version() >= NcclLibrary::kOrdering;
  }
  /// Whether NCCL is told of buckets. A rank by itself has nobody who would reach them.
  bool registers() const { return settings().registers && context_.communicator.size > 1; }
  /// How.
  NcclRegistration registration() const;
  /// Null: HVD_GPU_GRAPHS is off.
  NcclGraphs* graphs() { return holdings_->graphs(); }

  // Batches are put into the stream one after the other, in log order. Batch::turn is their place
  // among those of other process sets.
  std::uint64_t take_ticket() { return tickets_++; }
  bool is_at_head(std::uint64_t ticket) const { return ticket == head_; }
  /// The batch at the head has what it needs of this rank, except for other ranks.
  void count_begun() { board_.count_begun(); }
  /// The batch at the head is in the stream.
  void pass_on() {
    board_.count_launched();
    ++head_;
  }
  /// NCCL's failure of the system, which may be due to another rank: logged here, in case the job
  /// ends with that rank's name. With what the driver says of the GPU where that has failed for
  /// good: NCCL itself says little ("unhandled cuda error").
  Status in_doubt(const Status& failure) const;

  /// Tells the user about a batch that does not end.
  void report(const StalledBatch& batch) const;
  /// What it says.
  std::string describe(const StalledBatch& batch) const {
    return stall_text(batch, context_.communicator, board_);
  }

  /// What is set, and the engine woken, when the device has come to a point.
  struct Arrival {
    std::atomic<bool> is_here{false};
    Status status;  ///< Written before `is_here`.
  };
  /// Shared by the task and the thread that waits for the device.
  std::shared_ptr<Arrival> watch(GpuEventPtr event);

  /// A batch was given up: nothing may follow it.
  void give_up() { is_given_up_ = true; }
  bool is_given_up() const { return is_given_up_; }
  /// What later batches fail with. As a loss: whoever knows the culprit better has time to say so.
  static Status given_up() {
    return error(Code::kPeerLost, "nccl: an earlier batch of this process set was given up");
  }
  /// Gives all up and begins to end what is on the device, on a thread of its own, which releases
  /// it when it is done, however long that takes.
  void begin_abort();
  /// False: the device may still be at work, in tensors of callers as well.
  bool is_aborted_by(Deadline deadline) const { return !abort_ || abort_->ends_by(deadline); }

 private:
  const BackendContext context_;
  LaunchBoard board_;
  std::shared_ptr<NcclBell> bell_;  // with the watcher's thread, which may outlive us
  std::optional<NcclLibrary> library_;
  Gpu* gpu_ = nullptr;
  std::shared_ptr<NcclHoldings> holdings_;  ///< From begin() on; see there who shares it.
  std::optional<TimedCall> abort_;
  Deadline abort_patience_ = kForever;
  std::uint64_t tickets_ = 0;
  std::uint64_t head_ = 0;
  std::optional<bool> reduces_float8_;
  bool is_given_up_ = false;
};

}  // namespace hvd
