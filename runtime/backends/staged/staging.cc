// SPDX-License-Identifier: Apache-2.0
#include "backends/staged/staging.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/log.h"
#include "device/timed_call.h"

namespace hvd {

PinnedBlock& PinnedBlock::operator=(PinnedBlock&& other) noexcept {
  std::swap(staging_, other.staging_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

PinnedBlock::~PinnedBlock() {
  if (staging_ != nullptr) staging_->take_back(data_, bytes_);
}

/// What the end leaves to free once nothing uses it.
struct Staging::Rest {
  explicit Rest(Gpu& of) : gpu(of) {}
  Rest(const Rest&) = delete;
  Rest& operator=(const Rest&) = delete;
  ~Rest() {
    from_device = nullptr;
    from_host = nullptr;
    MemoryReaper reaper;  // other streams of the GPU may hang, which drivers wait for
    for (const Free& block : free) reaper.free_pinned(gpu, block.data);
    if (to_host != nullptr) gpu.destroy_stream(to_host);
    if (to_device != nullptr) gpu.destroy_stream(to_device);
  }

  Gpu& gpu;
  StreamHandle to_host = nullptr;
  StreamHandle to_device = nullptr;
  std::vector<Free> free;
  std::unique_ptr<EventWatcher> from_device;
  std::unique_ptr<EventWatcher> from_host;
};

Staging::Staging(Gpu& gpu, const Doorbell* doorbell) : gpu_(gpu), bell_(std::make_shared<Bell>()) {
  Lock lock(bell_->mutex);
  bell_->doorbell = doorbell;
}

Result<std::unique_ptr<Staging>> Staging::open(Gpu& gpu, const Doorbell* doorbell) {
  std::unique_ptr<Staging> staging(new Staging(gpu, doorbell));
  HVD_TRY_ASSIGN(staging->to_host_, gpu.create_stream());
  HVD_TRY_ASSIGN(staging->to_device_, gpu.create_stream());
  HVD_TRY_ASSIGN(staging->ring_, staging->take_block(kChunks * kChunkBytes));
  return staging;
}

Staging::~Staging() {
  {
    Lock lock(bell_->mutex);
    bell_->doorbell = nullptr;
  }
  emptied_events_ = {};
  ring_ = {};
  auto rest = std::make_shared<Rest>(gpu_);
  rest->to_host = to_host_;
  rest->to_device = to_device_;
  rest->free = std::move(free_);
  rest->from_device = std::move(from_device_);
  rest->from_host = std::move(from_host_);
  if (ends_[0] == nullptr) return;
  // The device may use all of it for as long as it likes: a thread waits for that, and frees it.
  const TimedCall call([rest = std::move(rest), ends = std::move(ends_)] {
    for (const GpuEventPtr& end : ends) static_cast<void>(end->gpu().wait(*end));
  });
  if (call.ends_by(Deadline::after(kDevicePatience))) return;
  log(LogLevel::kWarning, "staged",
      "GPU {} has not come to an end within {} s; streams and pinned memory are freed when it has",
      gpu_.device().index, kDevicePatience.count());
}

Status Staging::wait_for(std::span<const GpuEventPtr> events) {
  for (const GpuEventPtr& event : events) HVD_TRY(gpu_.make_wait(to_host_, *event));
  return Status::ok();
}

Result<Staging::End> Staging::end_of(StreamHandle stream, EventWatcher& watcher) {
  HVD_TRY_ASSIGN(auto event, gpu_.record(stream));
  End end{event, std::make_shared<Arrival>()};
  watcher.watch(std::move(event), [arrival = end.arrival, bell = bell_](const Status& status) {
    arrival->status = status;
    arrival->has_come.store(true);  // seq_cst: publishes the status, and comes before the bell
    Lock lock(bell->mutex);
    if (bell->doorbell != nullptr) bell->doorbell->ring_self();
    bell->changed.notify_all();
  });
  return end;
}

std::uint64_t Staging::take_chunks(std::size_t count) {
  return std::exchange(taken_, taken_ + count);
}

Status Staging::begin_fill(std::uint64_t number) {
  ++filled_;
  const GpuEventPtr& emptied = emptied_events_[number % kChunks];
  return emptied == nullptr ? Status::ok() : gpu_.make_wait(to_host_, *emptied);
}

void Staging::set_emptied(GpuEventPtr event) {
  emptied_events_[emptied_ % kChunks] = std::move(event);
  ++emptied_;
}

Result<PinnedBlock> Staging::take_block(std::size_t bytes) {
  const auto found = std::find_if(free_.begin(), free_.end(), [&](const Free& block) {
    return block.bytes >= bytes && block.bytes / 2 <= std::bit_ceil(bytes);
  });
  if (found != free_.end()) {
    PinnedBlock block(*this, found->data, found->bytes);
    free_.erase(found);
    return block;
  }
  if (free_.size() > kMostFree) {
    reaper_.free_pinned(gpu_, free_.front().data);
    free_.erase(free_.begin());
  }
  const std::size_t rounded = std::bit_ceil(std::max<std::size_t>(bytes, 4096));
  HVD_TRY_ASSIGN(void* const memory, gpu_.allocate_pinned(rounded));
  return PinnedBlock(*this, static_cast<std::byte*>(memory), rounded);
}

/// Freed later: what was given up with its task may still be in the streams.
void Staging::take_back(std::byte* data, std::size_t bytes) { free_.push_back({data, bytes}); }

bool Staging::settle(Deadline deadline) {
  const auto to_host = end_of_copies_to_host();
  const auto to_device = end_of_copies_to_device();
  if (!to_host.is_ok() || !to_device.is_ok()) return true;  // the device has failed, and is still
  const auto is_idle = [&] {
    return to_host.value().arrival->has_come.load() && to_device.value().arrival->has_come.load();
  };
  Lock lock(bell_->mutex);
  bool in_time = true;
  while (!is_idle() && in_time) in_time = bell_->changed.wait_until(bell_->mutex, deadline);
  if (is_idle()) return true;
  ends_ = {to_host.value().event, to_device.value().event};
  return false;
}

}  // namespace hvd
