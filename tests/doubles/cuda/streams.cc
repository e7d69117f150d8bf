// SPDX-License-Identifier: Apache-2.0
#include "streams.h"

#include <chrono>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "calls.h"
#include "capture.h"
#include "devices.h"
#include "double_cuda.h"

namespace double_cuda {

void Point::reach() {
  std::lock_guard lock(mutex_);
  reached_ = true;
  changed_.notify_all();
}

bool Point::is_reached() {
  std::lock_guard lock(mutex_);
  return reached_;
}

void Point::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return reached_; });
}

namespace {

/// All streams that were made, and not destroyed; the default streams too. Leaked, as Calls.
struct Streams {
  std::mutex mutex;
  std::set<CUstream> live;
  /// Destroyed ones: another thread may be about to wait for them.
  std::vector<CUstream> closed;
};

Streams& streams() {
  static Streams* const all = new Streams;
  return *all;
}

/// Of the GPU, except for its default stream; `blocking`: those alone that keep order with it.
std::vector<CUstream> streams_of(CUcontext context, bool blocking) {
  std::lock_guard lock(streams().mutex);
  std::vector<CUstream> found;
  for (const CUstream stream : streams().live) {
    if (stream->context != context || stream == context->stream) continue;
    if (!blocking || (stream->flags & CU_STREAM_NON_BLOCKING) == 0) found.push_back(stream);
  }
  return found;
}

void run_item(CUstream_st& stream, CUstream_st::Item& item) {
  if (const std::uint64_t pause = next_delay_microseconds(); pause > 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(pause));
  }
  CUcontext context = stream.context;
  if (!item.always && context->fault.load() != CUDA_SUCCESS) return;
  CUresult healthy = CUDA_SUCCESS;
  if (const CUresult code = item.work(); code != CUDA_SUCCESS) {
    context->fault.compare_exchange_strong(healthy, code);
  }
}

void work_off(CUstream stream) {
  std::unique_lock lock(stream->mutex);
  while (true) {
    stream->changed.wait(
        lock, [&] { return !stream->hung && (!stream->items.empty() || stream->closed); });
    if (stream->items.empty()) {
      stream->has_thread = false;
      return;
    }
    if (std::exchange(stream->items.front().hangs, false)) {
      stream->hung = true;
      continue;
    }
    CUstream_st::Item item = std::move(stream->items.front());
    stream->items.pop_front();
    stream->running = true;
    lock.unlock();
    run_item(*stream, item);
    item.work = nullptr;
    lock.lock();
    stream->running = false;
  }
}

void append(CUstream stream, Work work, bool always) {
  const bool hangs = take_hang();
  std::lock_guard lock(stream->mutex);
  stream->items.push_back({std::move(work), always, hangs});
  if (!stream->has_thread) {
    stream->has_thread = true;
    std::thread(work_off, stream).detach();
  }
  stream->changed.notify_all();
}

PointPtr mark_alone(CUstream stream) {
  auto point = std::make_shared<Point>();
  append(
      stream, [point] { return point->reach(), CUDA_SUCCESS; }, true);
  return point;
}

void wait_in(CUstream stream, PointPtr point) {
  append(
      stream, [point = std::move(point)] { return point->wait(), CUDA_SUCCESS; }, true);
}

/// The legacy default stream and the blocking ones of a GPU take turns.
void keep_default_order(CUstream stream) {
  const CUstream legacy = stream->context->stream;
  if (stream == legacy) {
    for (const CUstream other : streams_of(stream->context, true)) {
      wait_in(stream, mark_alone(other));
    }
  } else if ((stream->flags & CU_STREAM_NON_BLOCKING) == 0) {
    bool idle = false;
    {
      std::lock_guard lock(legacy->mutex);
      idle = legacy->items.empty() && !legacy->running;
    }
    if (!idle) wait_in(stream, mark_alone(legacy));
  }
}

}  // namespace

CUstream make_stream(CUcontext context, unsigned flags, int priority) {
  auto* const stream = new CUstream_st(context, flags, priority);
  std::lock_guard lock(streams().mutex);
  streams().live.insert(stream);
  return stream;
}

CUstream stream_of(CUstream handle) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
    const CUcontext context = current_context();
    return context == nullptr ? nullptr : context->stream;
  }
  std::lock_guard lock(streams().mutex);
  return streams().live.count(handle) == 1 ? handle : nullptr;
}

bool close_stream(CUstream stream) {
  {
    std::lock_guard lock(streams().mutex);
    if (streams().live.erase(stream) == 0) return false;
    streams().closed.push_back(stream);
  }
  std::lock_guard lock(stream->mutex);
  stream->closed = true;
  stream->changed.notify_all();
  return true;
}

CUresult put(CUstream stream, Work work) {
  bool captured = false;
  const CUresult code = add_to_capture(stream, work, &captured);
  if (captured || code != CUDA_SUCCESS) {
    (void)take_hang();
    return code;
  }
  const bool hangs = take_hang();
  keep_default_order(stream);
  if (hangs) hang_next_work();
  append(stream, std::move(work), false);
  return CUDA_SUCCESS;
}

void put_always(CUstream stream, Work work) { append(stream, std::move(work), true); }

PointPtr mark(CUstream stream) {
  const bool hangs = take_hang();
  keep_default_order(stream);
  if (hangs) hang_next_work();
  return mark_alone(stream);
}

void wait_for_all(CUcontext context) {
  std::vector<PointPtr> points{mark_alone(context->stream)};
  for (const CUstream stream : streams_of(context, false)) points.push_back(mark_alone(stream));
  for (const PointPtr& point : points) wait_on_host(*point);
}

void wait_on_host(Point& point) {
  if (point.is_reached()) return;
  count("wait");
  point.wait();
}

void release_streams() {
  std::lock_guard lock(streams().mutex);
  const auto release = [](CUstream stream) {
    std::lock_guard stream_lock(stream->mutex);
    stream->hung = false;
    for (CUstream_st::Item& item : stream->items) item.hangs = false;
    stream->changed.notify_all();
  };
  for (const CUstream stream : streams().live) release(stream);
  for (const CUstream stream : streams().closed) release(stream);
}

}  // namespace double_cuda

void double_hang(CUstream stream) {
  if (stream == nullptr) stream = double_cuda::context_of(0)->stream;
  std::lock_guard lock(stream->mutex);
  stream->hung = true;
}

void double_release() { double_cuda::release_streams(); }

std::size_t double_streams() {
  std::lock_guard lock(double_cuda::streams().mutex);
  return double_cuda::streams().live.size() - static_cast<std::size_t>(double_cuda::device_count());
}
