// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/deadline.h"
#include "base/mutex.h"
#include "base/result.h"
#include "device/event_watcher.h"
#include "device/gpu.h"
#include "device/memory_reaper.h"
#include "transport/doorbell.h"

namespace hvd {

/// Something that the device does, and what came of it. Thread-safe.
struct Arrival {
  Status status;  ///< May be read once has_come is true.
  std::atomic<bool> has_come{false};
};
/// Shared by who waits and the thread that watches.
using ArrivalPtr = std::shared_ptr<Arrival>;

class Staging;

/// Pinned memory of a Staging, which it goes back to. Engine thread only.
class PinnedBlock {
 public:
  PinnedBlock() = default;
  PinnedBlock(Staging& staging, std::byte* data, std::size_t bytes)
      : staging_(&staging), data_(data), bytes_(bytes) {}
  PinnedBlock(PinnedBlock&& other) noexcept { *this = std::move(other); }
  PinnedBlock& operator=(PinnedBlock&& other) noexcept;
  ~PinnedBlock();
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  Staging* staging_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// What the tasks of one staged backend share: two streams of copies on one GPU, one for each
/// direction so that both copy engines work at once, and pinned memory.
///
/// Pinned memory is a ring of chunks, numbered without end in the order in which batches take them,
/// and blocks for what is not cut into chunks. A chunk is filled (a copy to it is in the stream),
/// used on the host, and emptied (a copy from it is); it is filled again after the one has come.
/// Engine thread only.
class Staging {
 public:
  static constexpr std::size_t kChunkBytes = std::size_t{4} << 20;
  static constexpr std::size_t kChunks = 4;

  /// `doorbell` is rung as things arrive.
  static Result<std::unique_ptr<Staging>> open(Gpu& gpu, const Doorbell* doorbell);
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging();

  Gpu& gpu() const { return gpu_; }
  StreamHandle to_host() const { return to_host_; }
  StreamHandle to_device() const { return to_device_; }
  /// What the stream of copies to the host does from now on comes after the events.
  Status wait_for(std::span<const GpuEventPtr> events);
  /// The end of what is in a stream by now.
  struct End {
    GpuEventPtr event;
    ArrivalPtr arrival;
  };
  Result<End> end_of_copies_to_host() { return end_of(to_host_, *from_device_); }
  Result<End> end_of_copies_to_device() { return end_of(to_device_, *from_host_); }

  /// Numbers of `count` chunks for one batch; returns the first.
  std::uint64_t take_chunks(std::size_t count);
  std::byte* chunk(std::uint64_t number) const {
    return ring_.data() + number % kChunks * kChunkBytes;
  }
  /// True when it is the turn of the chunk, and what was in its place is on its way out.
  bool may_fill(std::uint64_t number) const {
    return number == filled_ && number < emptied_ + kChunks;
  }
  /// Before the copies to the chunk.
  Status begin_fill(std::uint64_t number);
  /// After the last copy from the next chunk in order.
  void set_emptied(GpuEventPtr event);

  /// Pinned memory of at least `bytes`.
  Result<PinnedBlock> take_block(std::size_t bytes);

  /// Waits until nothing is in the streams; false when the deadline passed before.
  bool settle(Deadline deadline);

 private:
  friend class PinnedBlock;
  struct Rest;
  /// What threads that watch ring; outlives the doorbell.
  struct Bell {
    Mutex mutex;
    CondVar changed;
    const Doorbell* doorbell HVD_GUARDED_BY(mutex) = nullptr;
  };
  /// More free blocks than this go back to the driver.
  static constexpr std::size_t kMostFree = 8;

  Staging(Gpu& gpu, const Doorbell* doorbell);
  Result<End> end_of(StreamHandle stream, EventWatcher& watcher);
  void take_back(std::byte* data, std::size_t bytes);

  Gpu& gpu_;
  std::shared_ptr<Bell> bell_;  ///< Shared with the watching threads.
  StreamHandle to_host_ = nullptr;
  StreamHandle to_device_ = nullptr;
  PinnedBlock ring_;
  std::uint64_t taken_ = 0;
  std::uint64_t filled_ = 0;
  std::uint64_t emptied_ = 0;
  std::array<GpuEventPtr, kChunks> emptied_events_;  ///< By place in the ring.
  struct Free {
    std::byte* data;
    std::size_t bytes;
  };
  std::vector<Free> free_;
  MemoryReaper reaper_;              ///< Other streams of the GPU may hang, which drivers wait for.
  std::array<GpuEventPtr, 2> ends_;  ///< Of the streams, when they were given up and had not come.
  std::unique_ptr<EventWatcher> from_device_ = std::make_unique<EventWatcher>();
  std::unique_ptr<EventWatcher> from_host_ = std::make_unique<EventWatcher>();
};

}  // namespace hvd
