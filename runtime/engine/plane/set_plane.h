// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/rounding.h"
#include "bootstrap/set_wiring.h"
#include "collective/backend.h"
#include "engine/options.h"
#include "engine/plane/direct_rounds.h"
#include "engine/plane/reduction.h"
#include "transport/doorbell.h"

namespace hvd {

/// The data plane of one process set on a rank that is in it: its members, and what moves their
/// bytes. It shares nothing with the planes of other sets and waits for none of them, except for
/// the order on a GPU (LaunchOrder).
/// Under the progress lock, except for what is marked thread-safe.
class SetPlane {
 public:
  struct Parts {
    Communicator communicator;
    SetLinks links;     ///< Their memory: plane_memory_bytes(), shared out to the backends.
    Doorbell doorbell;  ///< Of the members on this node.
    ArenaView arena;
  };
  SetPlane(Parts parts, std::span<const BackendEntry> table, const EngineOptions& options);
  SetPlane(const SetPlane&) = delete;
  SetPlane& operator=(const SetPlane&) = delete;
  ~SetPlane();

  /// Immutable once the set is formed; then thread-safe.
  const Communicator& communicator() const { return communicator_; }
  int process_set() const { return communicator_.process_set; }
  /// The log has given the set its number.
  void set_number(int process_set) { communicator_.process_set = process_set; }
  /// As Wiring::lane, over the nodes of the set.
  std::span<const std::unique_ptr<Link>> lane() const { return links_.lane; }
  bool has_member(int world_rank) const;
  /// Null where the set is on several nodes, unless it is the world of a small job.
  DirectRounds* direct_rounds() { return direct_rounds_ ? &*direct_rounds_ : nullptr; }

  // Batches, in log order.

  /// The number of the next batch, from 1.
  std::uint64_t next_batch() { return ++batches_; }
  /// Buckets have been frozen once more.
  void count_schedule() { ++schedules_; }
  std::uint64_t schedules() const { return schedules_; }
  void start(FusedBatch fused) { reducer_->start(std::move(fused)); }
  /// Advances every task by a chunk; true when anything moved.
  bool advance() { return reducer_->advance(); }
  bool has_batches() const { return reducer_->in_flight() > 0; }
  /// Batches that still need this rank's processor: the device does the rest by itself.
  std::size_t host_batches() const { return reducer_->in_flight() - reducer_->enqueued(); }
  bool has_gpu_work() const { return reducer_->has_gpu_work(); }
  bool needs_polling() const { return reducer_->needs_polling(); }
  std::vector<Reducer::Finished> take_finished() { return reducer_->take_finished(); }
  std::vector<Reducer::Enqueued> take_enqueued() { return reducer_->take_enqueued(); }

  /// As Reducer::give_up().
  void give_up(bool together) { reducer_->give_up(together); }
  /// As Reducer::settle(); `has_ended` is asked by ranks of the job.
  Reducer::Abandoned settle(bool on_gpu, const std::function<bool(int world_rank)>& has_ended,
                            Deadline deadline);

  /// The choice for an allreduce of float32, for people.
  std::string describe(Device device) const {
    return reducer_->describe(Allreduce{}, DataType::kFloat32, device);
  }
  bool reproducible(Device device) const { return reducer_->reproducible(device); }

  // Requests of this rank. Thread-safe. Not counted for process set 0, which is never removed.

  void request_entered() { requests_.fetch_add(1); }
  /// It will end by itself (PendingRequest::ends_by_itself()).
  void request_unattended() { unattended_.fetch_add(1); }
  void request_left(const PendingRequest& pending) {
    if (pending.ends_by_itself()) unattended_.fetch_sub(1);
    requests_.fetch_sub(1);
  }
  /// Requests that were submitted and have not completed.
  std::size_t requests() const { return requests_.load(); }
  /// Those of them that end by themselves.
  std::size_t unattended() const { return unattended_.load(); }

  // The GPU that the tensors of this rank are on. Thread-safe.

  /// All batches of a process set use one GPU of a rank: the order of the log is that of its
  /// streams. The first request on a GPU binds it; kInvalidArgument: another GPU is bound.
  Status bind_gpu(const Request& request);
  /// The bound GPU; a rank that joined without a tensor of its own takes the one of its place in
  /// the node.
  std::int32_t gpu_of_stand_in(Gpus* gpus, int local_rank) const;
  /// For people: of a set that has one.
  std::int32_t gpu() const { return gpu_.load(); }

 private:
  static constexpr std::int32_t kNoGpu = -1;

  Communicator communicator_;  ///< Backends refer to it.
  SetLinks links_;
  Doorbell doorbell_;
  std::optional<DirectRounds> direct_rounds_;
  std::unique_ptr<Reducer> reducer_;
  std::uint64_t batches_ = 0;
  std::uint64_t schedules_ = 0;
  std::atomic<std::size_t> requests_{0};
  std::atomic<std::size_t> unattended_{0};
  std::atomic<std::int32_t> gpu_{kNoGpu};
};

/// Memory is shared out by pages.
constexpr std::size_t whole_pages(std::size_t bytes) { return round_up(bytes, std::size_t{4096}); }

/// Bytes of shared memory that the direct rounds and backends of the world, or of another process
/// set, want in a node with `local_size` members.
std::size_t plane_memory_bytes(std::span<const BackendEntry> table, bool is_world, int local_size);

/// The communicator of some ranks of the job (ascending), seen by `world.rank`, which is one of
/// them. Its process set has no number yet.
Communicator part_of(const Communicator& world, const std::vector<int>& ranks);

/// Ranks of the job by node of the communicator.
std::vector<std::vector<int>> world_ranks_by_node(const Communicator& communicator);

}  // namespace hvd
