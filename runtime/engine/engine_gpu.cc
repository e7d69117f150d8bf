// SPDX-License-Identifier: Apache-2.0
// Requests on GPU memory, where they differ: what is checked as they come, and their two ends. A
// stream of ours holds them first (enqueued), the device has done them later (done).
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/engine_impl.h"

namespace hvd {
namespace {

/// What the library made is read in `stream` from now on.
void add_reader(Pending& pending, StreamHandle stream) {
  if (!pending.has_rows_of_library()) return;
  Lock lock(pending.readers_mutex);
  const auto found = std::find(pending.readers.begin(), pending.readers.end(), stream);
  if (found == pending.readers.end()) pending.readers.push_back(stream);
}

bool is_on_gpu(const Request& request) {
  return request.device.kind != DeviceKind::kCpu && !request.tensors.empty();
}

}  // namespace

/// Null for a request on CPU memory.
Result<Gpu*> Engine::Impl::open_gpu(const Request& request) {
  if (!is_on_gpu(request)) return static_cast<Gpu*>(nullptr);
  const auto context = [&] {
    return format_text("rank {}: {} '{}'", wiring_.rank, kind_name(request.operation),
                       request.name);
  };
  if (options_.gpus == nullptr) {
    return error(Code::kUnsupported, "{}: this engine was started without GPUs; use CPU memory",
                 context());
  }
  auto opened = options_.gpus->open(request.device);
  if (!opened.is_ok()) return opened.status().with_context(context());
  const Status status = opened.value()->check_stream(request.stream);
  if (!status.is_ok()) return status.with_context(context());
  return opened;
}

/// All batches of a process set use one GPU of a rank: the order of the log is that of its streams.
Status Engine::Impl::bind_gpu(SetPlane& plane, const Request& request) const {
  if (!is_on_gpu(request)) return Status::ok();
  std::int32_t bound = SetPlane::kNoGpu;
  if (plane.gpu.compare_exchange_strong(bound, request.device.index) ||
      bound == request.device.index) {
    return Status::ok();
  }
  return error(Code::kInvalidArgument,
               "rank {}: {} '{}' is on GPU {}, process set {} works on GPU {} of this rank since "
               "its first tensor; a process set uses one GPU per rank: copy the tensor there",
               wiring_.rank, kind_name(request.operation), request.name, request.device.index,
               request.process_set, bound);
}

/// A rank that joined without a tensor of its own takes the GPU of its place in the node.
std::int32_t Engine::Impl::gpu_of_stand_in(const SetPlane& plane) const {
  if (const std::int32_t bound = plane.gpu.load(); bound != SetPlane::kNoGpu) return bound;
  if (options_.gpus == nullptr) return 0;
  const auto count = options_.gpus->count();
  return count.is_ok() && count.value() > 0 ? world_.local_rank % count.value() : 0;
}

void Engine::Impl::mark_enqueued(SetPlane& plane) {
  bool is_news = false;
  for (const Reducer::Enqueued& batch : plane.reduction->take_enqueued()) {
    HVD_CHECK(batch.finish_point != nullptr);
    for (const PendingPtr& owner : batch.owners) {
      owner->finish_points.push_back(batch.finish_point);
      if (--owner->batches_to_enqueue > 0) continue;
      const bool counts = owner->request.process_set != 0 && !owner->is_stand_in;
      if (counts && !owner->done.load()) plane.unattended.fetch_add(1);
      owner->enqueued.store(true);  // seq_cst: publishes the points, before the look for sleepers
      is_news = true;
    }
  }
  if (is_news) completion_.wake_all();
}

/// Waits for the requests of a set that end by themselves: callers of wait_stream(), or of join(),
/// think of them as done. What is in flight then.
std::size_t Engine::Impl::await_unattended(const SetPlane* plane, Deadline deadline) {
  if (plane == nullptr) return 0;
  if (plane->unattended.load() > 0) {
    wiring_.node.doorbell->ring_self();
    completion_.wait_until([&] { return plane->unattended.load() == 0 || is_over(); }, deadline);
  }
  return plane->in_flight.load();
}

/// Every rank has left: the epoch ends as soon as devices have done what is under way. Callers of
/// wait_stream() think of it as done, and other ranks need what nobody here waits for.
void Engine::Impl::end_if_left() {
  for (const auto& plane : planes_) {
    if (plane->reduction->has_gpu_work()) return;
  }
  left_together_.store(true);
  all_left_.store(true);
  end_epoch(error(Code::kAborted, "rank {}: every rank has shut down", wiring_.rank));
}

Status Engine::Impl::wait_stream(std::span<const Handle> handles, StreamHandle stream,
                                 Deadline deadline) {
  HVD_TRY_ASSIGN(const std::vector<PendingPtr> all, completion_.find(handles));
  for (const PendingPtr& pending : all) {
    if (pending->ready != nullptr) continue;
    return error(Code::kInvalidArgument,
                 "rank {}: {} '{}' is not on GPU memory, a stream cannot wait for it; call "
                 "hvd_wait()",
                 wiring_.rank, kind_name(pending->request.operation), pending->request.name);
  }
  // What was submitted before `stream` waits must not wait for that in turn.
  if (!submission_.is_empty()) {
    flush();
  } else {
    static_cast<void>(ready_points_.close());
  }
  const Gpu* checked = nullptr;
  std::vector<const GpuEvent*> awaited;  // few: one for each batch
  for (const PendingPtr& pending : all) {
    Gpu& gpu = pending->ready->gpu();
    if (!pending->done.load() && std::exchange(checked, &gpu) != &gpu) {
      if (const Status status = gpu.check_stream(stream); !status.is_ok()) {
        return status.with_context(format_text("rank {}: stream that waits for '{}'", wiring_.rank,
                                               pending->request.name));
      }
    }
    if (!pending->done.load() && !pending->enqueued.load()) {
      await(*pending, Until::kEnqueued, deadline);
    }
    if (pending->done.load()) {
      HVD_TRY(pending->status);
      add_reader(*pending, stream);
      continue;
    }
    if (!pending->enqueued.load()) return not_in_time(*pending);
    add_reader(*pending, stream);
    for (const GpuEventPtr& point : pending->finish_points) {
      if (std::find(awaited.begin(), awaited.end(), point.get()) != awaited.end()) continue;
      HVD_TRY(gpu.make_wait(stream, *point));
      awaited.push_back(point.get());
    }
  }
  return Status::ok();
}

/// Before a release: drivers need not wait for those who read what the library made.
void Engine::Impl::free_behind_readers(std::span<const Handle> handles) {
  // relaxed: set before a caller has the handle of a tensor of GPU memory.
  if (!has_gpu_tensors_.load(std::memory_order_relaxed)) return;
  for (const Handle handle : handles) {
    const auto found = completion_.find(handle);
    if (!found.is_ok() || found.value()->ready == nullptr) continue;
    Pending& pending = *found.value();
    std::vector<StreamHandle> readers;
    {
      Lock lock(pending.readers_mutex);
      readers = std::exchange(pending.readers, {});
    }
    Gpu& gpu = pending.ready->gpu();
    for (const StreamHandle stream : readers) {
      if (!gpu.check_stream(stream).is_ok()) continue;  // captured by now: a graph reads the rows
      const auto point = gpu.record(stream);
      if (!point.is_ok()) continue;
      for (GatherResult& result : pending.gathered) {
        if (result.data != nullptr) result.data.get_deleter().after.push_back(point.value());
      }
    }
  }
}

}  // namespace hvd
