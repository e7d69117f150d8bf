// SPDX-License-Identifier: Apache-2.0
#include "engine/request/gpu_requests.h"

#include <algorithm>
#include <utility>

namespace hvd {
namespace {

/// The stream reads what the library made from now on.
void add_reader(PendingRequest& pending, StreamHandle stream) {
  if (!pending.has_rows_of_library()) return;
  Lock lock(pending.gpu.readers_mutex);
  const auto found = std::find(pending.gpu.readers.begin(), pending.gpu.readers.end(), stream);
  if (found == pending.gpu.readers.end()) pending.gpu.readers.push_back(stream);
}

}  // namespace

Result<Gpu*> GpuRequests::open(const Request& request) {
  if (!request.is_on_gpu()) return static_cast<Gpu*>(nullptr);
  const auto context = [&] {
    return format_text("rank {}: {} '{}'", rank_, kind_name(request.operation), request.name);
  };
  if (gpus_ == nullptr) {
    return error(Code::kUnsupported, "{}: this engine was started without GPUs; use CPU memory",
                 context());
  }
  auto opened = gpus_->open(request.device);
  if (!opened.is_ok()) return opened.status().with_context(context());
  const Status status = opened.value()->check_stream(request.stream);
  if (!status.is_ok()) return status.with_context(context());
  return opened;
}

void GpuRequests::attach(PendingRequest& pending, Gpu& gpu) {
  pending.gpu.reaper = &reaper_;
  pending.gpu.ready = ready_points_.join(gpu, pending.request.stream);
  // relaxed: see any().
  any_.store(true, std::memory_order_relaxed);
}

void GpuRequests::free_after_readers(PendingRequest& pending) {
  if (pending.gpu.ready == nullptr) return;
  std::vector<StreamHandle> readers;
  {
    Lock lock(pending.gpu.readers_mutex);
    readers = std::exchange(pending.gpu.readers, {});
  }
  Gpu& gpu = pending.gpu.ready->gpu();
  for (const StreamHandle stream : readers) {
    if (!gpu.check_stream(stream).is_ok()) continue;  // captured by now: a graph reads the rows
    const auto point = gpu.record(stream);
    if (!point.is_ok()) continue;
    for (GatherResult& result : pending.gathered) {
      if (result.data != nullptr) result.data.get_deleter().after.push_back(point.value());
    }
  }
}

Status StreamWait::check_memory(std::span<const PendingPtr> requests) const {
  for (const PendingPtr& pending : requests) {
    if (pending->gpu.ready != nullptr) continue;
    return error(Code::kInvalidArgument,
                 "rank {}: {} '{}' is not on GPU memory, a stream cannot wait for it; call "
                 "hvd_wait()",
                 rank_, kind_name(pending->request.operation), pending->request.name);
  }
  return Status::ok();
}

Status StreamWait::check_stream(const PendingRequest& pending) {
  Gpu& gpu = pending.gpu.ready->gpu();
  if (pending.done.load() || std::exchange(checked_, &gpu) == &gpu) return Status::ok();
  const Status status = gpu.check_stream(stream_);
  if (status.is_ok()) return Status::ok();
  return status.with_context(
      format_text("rank {}: stream that waits for '{}'", rank_, pending.request.name));
}

Status StreamWait::add(PendingRequest& pending) {
  if (pending.done.load()) {
    HVD_TRY(pending.status);
    add_reader(pending, stream_);
    return Status::ok();
  }
  add_reader(pending, stream_);
  for (const GpuEventPtr& point : pending.gpu.finish_points) {
    if (std::find(awaited_.begin(), awaited_.end(), point.get()) != awaited_.end()) continue;
    HVD_TRY(pending.gpu.ready->gpu().make_wait(stream_, *point));
    awaited_.push_back(point.get());
  }
  return Status::ok();
}

}  // namespace hvd
