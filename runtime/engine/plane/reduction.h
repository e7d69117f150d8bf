// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collective/backend.h"
#include "collective/select.h"
#include "engine/plane/fusion.h"

namespace hvd {

/// Stage four, fused -> reduced: gives each batch to a backend and advances what is under way.
/// Engine thread only.
class Reducer {
 public:
  /// A line of the backend table, and what became of it.
  struct Candidate {
    std::string_view name;
    Status status;                     ///< Why create() declined.
    std::unique_ptr<Backend> backend;  ///< Null when it declined.
    bool on_gpu = false;               ///< As BackendEntry::on_gpu.
    bool is_prepared = false;          ///< Backend::prepare() was called...
    Status failure = {};               ///< ... and failed so.
    bool settles = false;              ///< It has begun to.
  };

  /// `wanted`: HVD_BACKEND, empty for any. Of those that serve the other kind of memory it chooses
  /// none. `warns`: on one rank, that GPU memory does not go by the first backend for it.
  Reducer(std::vector<Candidate> candidates, std::string wanted, bool warns = false);

  void start(FusedBatch fused);
  /// BackendContext::start_on_host.
  Result<std::unique_ptr<Task>> start_on_host(Batch batch);
  /// Advances every task by a chunk; true when anything moved.
  bool advance();
  std::size_t in_flight() const { return running_.size() + waiting_.size(); }
  /// Of those, what has said kEnqueued: the device does the rest by itself.
  std::size_t enqueued() const { return enqueued_; }
  /// True while a batch of GPU memory is under way, also before the device has it: the other ranks'
  /// kernels need it, though nobody may wait for it here.
  bool has_gpu_work() const;
  /// True while a task is under way for which nothing wakes us.
  bool needs_polling() const;
  /// True when a backend lent memory to something that outlives it.
  bool keeps_memory() const;

  struct Finished {
    std::vector<PendingPtr> owners;
    Status status;
    bool started = true;  ///< False: refused before any byte moved, on every rank alike.
  };
  std::vector<Finished> take_finished() { return std::exchange(finished_, {}); }
  /// A batch whose outputs are complete at a point of a stream.
  struct Enqueued {
    std::vector<PendingPtr> owners;
    GpuEventPtr finish_point;
  };
  std::vector<Enqueued> take_enqueued() { return std::exchange(newly_enqueued_, {}); }
  /// Drops all tasks, and begins what settle() waits for. `together`: all ranks have left in order.
  /// Then backends of GPU memory that have nothing under way here are left to end with the other
  /// ranks, whose devices may not be done.
  void give_up(bool together = false);
  struct Abandoned {
    std::vector<PendingPtr> owners;  ///< Of what had not finished.
    bool is_settled = true;          ///< Nobody works in this rank's tensors any more.
  };
  /// Waits until nobody works in this rank's tensors of GPU memory (`on_gpu`), or of the CPU's, at
  /// most until the deadline. After give_up(), once for each.
  Abandoned settle(bool on_gpu, const std::function<bool(int rank)>& is_gone, Deadline deadline);

  /// The choice for one kind of batch, for people: "shm: <reason>".
  std::string describe(const Operation& operation, DataType dtype, Device device) const;
  /// True when every backend in use gives the same bits in every run.
  bool reproducible(Device device) const;

 private:
  struct Running {
    std::unique_ptr<Task> task;
    std::vector<PendingPtr> owners;
    bool polled;
    bool on_gpu;               ///< Of GPU memory.
    bool moved = false;        ///< Something of it has.
    bool is_enqueued = false;  ///< It has said kEnqueued.
  };
  struct Choice {
    std::size_t kind = 0;
    ReduceOp op = ReduceOp::kSum;
    Wire wire = Wire::kSame;
    bool scaled = false;
    DataType dtype = DataType::kFloat32;
    DeviceKind device = DeviceKind::kCpu;
    Selection selection;
  };

  Selection select(const Operation& operation, DataType dtype, Device device) const;
  const Selection& choose(const Batch& batch);
  void warn_of_detour(const Batch& batch, const Selection& selection);
  void start_now(FusedBatch&& fused);
  bool prepare(std::size_t index, FusedBatch& first);
  bool advance_preparation();
  void finish(Running& running, Progress progress);

  std::vector<Candidate> candidates_;
  std::string wanted_;
  bool warns_;                         ///< Has not warned yet, and is the one to do so.
  std::vector<Choice> choices_;        ///< Made once per kind of batch; few.
  std::unique_ptr<Task> preparation_;  ///< Of candidates_[preparing_].
  std::size_t preparing_ = 0;
  std::deque<FusedBatch> waiting_;  ///< Behind it, in log order.
  std::deque<Running> running_;
  std::size_t polled_ = 0;  ///< Of those, how many nothing wakes us for.
  std::size_t enqueued_ = 0;
  std::vector<Finished> finished_;
  std::vector<Enqueued> newly_enqueued_;
  std::vector<PendingPtr> given_up_;         ///< Owners of what was on the CPU...
  std::vector<PendingPtr> given_up_on_gpu_;  ///< ... and on the GPU.
};

}  // namespace hvd
