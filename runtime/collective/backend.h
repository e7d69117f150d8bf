// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "collective/batch.h"
#include "collective/communicator.h"
#include "collective/nccl_settings.h"
#include "device/gpu.h"
#include "transport/doorbell.h"
#include "transport/link.h"
#include "transport/shared_arena.h"

namespace hvd {

/// What one call of Task::advance achieved.
enum class Progress {
  kBlocked,   ///< Nothing could be done: a peer must act first. It rings our bell, or a socket
              ///< wakes.
  kMoved,     ///< Did a chunk; call again.
  kEnqueued,  ///< Said once, and by tasks of GPU memory only: the device does the rest, in stream
              ///< order up to Task::finish_point(). Call on, until kDone, when it has.
  kDone,      ///< Finished: every output of the batch is complete.
  kFailed,    ///< See Task::status(). Never advance again.
};

/// A batch on its way. Owned and advanced by the engine, under its progress lock.
class Task {
 public:
  virtual ~Task() = default;
  /// Does at most one chunk of work (some 64 KiB) and never blocks or sleeps: some 0.2 ms at most.
  virtual Progress advance() = 0;
  /// The failure behind kFailed.
  virtual const Status& status() const = 0;
  /// After kEnqueued: where every output is complete.
  virtual GpuEventPtr finish_point() const { return nullptr; }
  /// As Backend::needs_polling(), for what this task does at present.
  virtual bool needs_polling() const { return false; }
};

/// Moves and reduces the bytes of batches for one communicator.
///
/// start() is called in log order, the same on every rank, and several tasks may be under way at
/// once: a backend runs the tasks of one communicator one after the other (a task that is not at
/// the head says kBlocked) or in parallel, but never reorders what reaches the wire.
/// Engine thread only (any thread that holds the engine's progress lock).
class Backend {
 public:
  virtual ~Backend() = default;
  /// "shm", "tcp", ...: as in HVD_BACKEND, HVD_LOG=select and hvd_describe().
  virtual std::string_view name() const = 0;
  /// Ok, or kUnsupported with the sentence why this batch cannot run here. Pure: depends only on
  /// what is equal on all ranks (operation, dtype, device, communicator, and what prepare() has
  /// found out; asked anew after it).
  virtual Status supports(const Operation& operation, DataType dtype, Device device) const = 0;
  /// Why it fits this communicator, for people: "all 4 ranks share the memory of one node".
  virtual std::string reach() const = 0;
  virtual Result<std::unique_ptr<Task>> start(Batch batch) = 0;
  /// What the ranks do together before the first batch, which it is told of; null: nothing. Called
  /// once, in log order; all batches of the communicator wait for it. Where it fails with
  /// kUnsupported, on every rank alike, the batches go to the next backend that accepts them; other
  /// failures are those of every batch.
  virtual Result<std::unique_ptr<Task>> prepare(const Batch& /*first*/) {
    return std::unique_ptr<Task>();
  }
  /// True when equal inputs give bitwise equal results on every rank and in every run.
  virtual bool reproducible() const = 0;
  /// True when neither a bell nor a descriptor wakes this rank for its tasks: while one is under
  /// way, the engine looks again at short intervals instead of sleeping.
  virtual bool needs_polling() const { return false; }
  /// True when memory that it was given, the context's included, must never be freed: something
  /// that outlives it may still read or write there. Asked before it is destroyed.
  virtual bool keeps_memory() const { return false; }
  /// After all tasks were given up: begins what settle() waits for, and waits for nothing itself.
  /// Every backend is told before the engine waits for the first.
  virtual void begin_settling() {}
  /// Then: true when nobody writes into the tensors of this rank any more, neither another rank nor
  /// the device; false when the deadline passed before. `is_gone` tells which ranks (of the
  /// communicator) have died.
  virtual bool settle(const std::function<bool(int rank)>& /*is_gone*/, Deadline /*deadline*/) {
    return true;
  }
};

/// The arenas of the ranks of a communicator that share a node.
struct ArenaView {
  std::shared_ptr<const SharedArena> arena;  ///< Null: there is none.
  std::vector<int> parts;                    ///< [local rank of the communicator] part of it.

  std::byte* at(int local_rank, std::size_t offset) const {
    return arena->at(parts[static_cast<std::size_t>(local_rank)], offset);
  }
};

/// What backends of GPU memory may use besides.
struct GpuContext {
  Gpus* gpus = nullptr;  ///< Null: they decline.
  /// Starts a batch of CPU memory on the backend that this communicator has for it; the caller owns
  /// the task and advances it: for what their ranks tell one another, and tensors that go through
  /// host memory. From start() only, so that the order is that of the log; memory is not looked at
  /// before the task is advanced.
  std::function<Result<std::unique_ptr<Task>>(Batch)> start_on_host = {};
  /// What is under way for so long is reported; 0: never.
  std::chrono::milliseconds stall_warning{0};
  NcclSettings nccl = {};
};

/// What a backend may use of the engine's surroundings; valid as long as the backend.
struct BackendContext {
  const Communicator& communicator;
  std::span<std::byte> memory;  ///< This backend's part of the node's shared memory: zeroed,
                                ///< 4096-aligned, BackendEntry::memory_bytes long.
  Doorbell* doorbell;           ///< Ring peers after publishing anything they may wait for.
  std::vector<Link*> lane;      ///< [node * sockets + socket]; null for my node, and all null where
                                ///< I drive no lane.
  int lanes;                    ///< Ranks per node that drive a lane; 0 when there is one node.
  ArenaView arena = {};         ///< Tensors here need no copying.
  int sockets = 1;              ///< Links of my lane to each other node.
  GpuContext gpu = {};
};

/// One line of the backend table (c/backend_table.cc).
struct BackendEntry {
  std::string_view name;
  /// Bytes of shared memory wanted in a node of `local_size` ranks.
  std::function<std::size_t(int local_size)> memory_bytes;
  /// A backend that cannot serve declines with a Status, which hvd_describe() repeats.
  std::function<Result<std::unique_ptr<Backend>>(const BackendContext&)> create;
  /// Serves GPU memory, and that alone; the others CPU memory. HVD_BACKEND chooses among its kind.
  bool on_gpu = false;
};

}  // namespace hvd
