// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "device/gpu_driver_settings.h"

namespace hvd {

/// A CUstream or hipStream_t. Null: the legacy default stream of the GPU.
using StreamHandle = void*;

class Gpu;

/// A point in a stream: what was put there before Gpu::record(). Goes back to its Gpu at the end.
/// Immutable after construction.
class GpuEvent {
 public:
  GpuEvent(Gpu& gpu, void* handle, StreamHandle stream)
      : gpu_(gpu), handle_(handle), stream_(stream) {}
  GpuEvent(const GpuEvent&) = delete;
  GpuEvent& operator=(const GpuEvent&) = delete;
  ~GpuEvent();

  Gpu& gpu() const { return gpu_; }
  void* handle() const { return handle_; }
  StreamHandle stream() const { return stream_; }

 private:
  Gpu& gpu_;
  void* handle_;
  StreamHandle stream_;
};
/// Shared by the requests, batches and threads that wait for the same point.
using GpuEventPtr = std::shared_ptr<const GpuEvent>;

/// What tells one GPU from another.
struct GpuFacts {
  std::string name;                     ///< "NVIDIA H100 80GB HBM3".
  std::array<std::uint8_t, 16> uuid{};  ///< Equal in every process that sees the GPU.
  std::string bus_id;                   ///< "0000:1b:00.0".
  int architecture = 0;                 ///< 90 for sm_90; 0 where the vendor has no such number.
  int multiprocessors = 1;
};

/// Another GPU of the process.
struct GpuPeer {
  std::array<std::uint8_t, 16> uuid{};
  bool is_in_reach = false;  ///< Its memory can be read and written from the GPU that was asked.
};

/// How many blocks of how many threads run a kernel.
struct LaunchShape {
  unsigned blocks = 1;
  unsigned threads = 1;
};

/// One GPU as this process sees it: its primary context, which the frameworks use as well.
///
/// Whatever fails says which GPU, which call and the vendor's text for the code. wait() waits for
/// the device; so may whatever makes memory or gives it back, and kernel() at its first call. No
/// other function does. Lives as long as its Gpus, which a process keeps until it ends: events may
/// outlive an engine. Thread-safe.
class Gpu {
 public:
  virtual ~Gpu() = default;

  virtual Device device() const = 0;
  virtual const GpuFacts& facts() const = 0;
  /// The other GPUs that this process sees. None of them is opened.
  virtual Result<std::vector<GpuPeer>> peers() = 0;

  /// A stream of ours: of the highest priority, not ordered with the default stream.
  virtual Result<StreamHandle> create_stream() = 0;
  virtual void destroy_stream(StreamHandle stream) = 0;
  /// kInvalidArgument: a stream of another GPU; kUnsupported: it is being captured into a graph.
  virtual Status check_stream(StreamHandle stream) = 0;

  virtual Result<GpuEventPtr> record(StreamHandle stream) = 0;
  /// What is put into `stream` from now on runs after the event.
  virtual Status make_wait(StreamHandle stream, const GpuEvent& event) = 0;
  virtual Result<bool> has_happened(const GpuEvent& event) = 0;
  /// Sleeps until the event, without end where the device hangs: for threads made for it.
  virtual Status wait(const GpuEvent& event) = 0;

  virtual Result<void*> allocate(std::size_t bytes) = 0;
  virtual void deallocate(void* memory) = 0;
  /// Host memory that copies reach without a detour.
  virtual Result<void*> allocate_pinned(std::size_t bytes) = 0;
  virtual void deallocate_pinned(void* memory) = 0;

  /// From anywhere to anywhere: device or host memory.
  virtual Status copy(void* to, const void* from, std::size_t bytes, StreamHandle stream) = 0;
  virtual Status set_bytes(void* memory, std::uint8_t value, std::size_t bytes,
                           StreamHandle stream) = 0;
  /// A kernel of device/kernels by name; kInternal: there is none.
  virtual Result<void*> kernel(std::string_view name) = 0;
  /// `arguments` as cuLaunchKernel: pointers to the values, which are copied.
  virtual Status launch(void* kernel, LaunchShape shape, std::span<void*> arguments,
                        StreamHandle stream) = 0;

  /// What this thread puts into `stream` until end_capture() becomes a graph instead of running.
  virtual Status begin_capture(StreamHandle stream) = 0;
  virtual Result<void*> end_capture(StreamHandle stream) = 0;
  virtual Status launch_graph(void* graph, StreamHandle stream) = 0;
  virtual void destroy_graph(void* graph) = 0;

  /// Makes this GPU the one that this thread's calls of other libraries mean, until leave(). While
  /// another stream is captured into a graph, what is called meanwhile is neither refused nor does
  /// it spoil the capture; nor do the functions here.
  virtual Status enter() = 0;
  virtual void leave() = 0;

 private:
  friend class GpuEvent;
  virtual void take_back(void* event) = 0;
};

inline GpuEvent::~GpuEvent() { gpu_.take_back(handle_); }

/// Gpu::enter() and leave(), as a scope.
class CurrentGpu {
 public:
  explicit CurrentGpu(Gpu& gpu) : gpu_(gpu), status_(gpu.enter()) {}
  CurrentGpu(const CurrentGpu&) = delete;
  CurrentGpu& operator=(const CurrentGpu&) = delete;
  ~CurrentGpu() {
    if (status_.is_ok()) gpu_.leave();
  }
  const Status& status() const { return status_; }

 private:
  Gpu& gpu_;
  Status status_;
};

/// The GPUs of this process. The driver's library is loaded at the first open(), never before: a
/// program without GPU tensors does not touch it. Thread-safe.
class Gpus {
 public:
  virtual ~Gpus() = default;
  /// The GPU of a framework's tensor. kUnsupported: this build, or this machine, has none of the
  /// kind (the sentence says which and what to do); kInvalidArgument: no such index.
  virtual Result<Gpu*> open(Device device) = 0;
  /// How many there are; kUnsupported as open().
  virtual Result<int> count() = 0;
  /// A library was loaded that works on GPUs. At the exit of the program it ends before what was
  /// registered earlier: whoever has to use it then hears of it here.
  virtual void note_library() {}
};

/// The kind of GPU that this build serves: kCuda or kRocm; nothing (kCpu) in a build without.
DeviceKind gpu_kind_of_build();
/// Those of this process, whose driver is loaded when the first is asked for. Never null.
std::unique_ptr<Gpus> find_gpus(const GpuDriverSettings& settings);

}  // namespace hvd
