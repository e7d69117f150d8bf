// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "device/driver_library.h"
#include "device/gpu.h"

namespace hvd {

/// The kernels for an architecture: code for it, or text that the driver compiles; empty: none.
using KernelImages = std::span<const std::byte> (*)(int architecture);

/// A Gpu through the vendor's driver interface. Thread-safe.
class DriverGpu final : public Gpu {
 public:
  /// `driver` is initialised, and lives longer.
  static Result<std::unique_ptr<DriverGpu>> open(const DriverLibrary& driver, int index,
                                                 KernelImages images);
  DriverGpu(const DriverGpu&) = delete;
  DriverGpu& operator=(const DriverGpu&) = delete;
  ~DriverGpu() override;

  Device device() const override { return {vendor::kDeviceKind, index_}; }
  const GpuFacts& facts() const override { return facts_; }
  Result<std::vector<GpuPeer>> peers() override;

  Result<StreamHandle> create_stream() override;
  void destroy_stream(StreamHandle stream) override;
  Status check_stream(StreamHandle stream) override;

  Result<GpuEventPtr> record(StreamHandle stream) override;
  Status make_wait(StreamHandle stream, const GpuEvent& event) override;
  Result<bool> has_happened(const GpuEvent& event) override;
  Status wait(const GpuEvent& event) override;

  Result<void*> allocate(std::size_t bytes) override;
  void deallocate(void* memory) override;
  Result<void*> allocate_pinned(std::size_t bytes) override;
  void deallocate_pinned(void* memory) override;

  Status copy(void* to, const void* from, std::size_t bytes, StreamHandle stream) override;
  Status set_bytes(void* memory, std::uint8_t value, std::size_t bytes,
                   StreamHandle stream) override;
  Result<void*> kernel(std::string_view name) override;
  Status launch(void* kernel, LaunchShape shape, std::span<void*> arguments,
                StreamHandle stream) override;

  Status begin_capture(StreamHandle stream) override;
  Result<void*> end_capture(StreamHandle stream) override;
  Status launch_graph(void* graph, StreamHandle stream) override;
  void destroy_graph(void* graph) override;

  Status enter() override;
  void leave() override;

 private:
  DriverGpu(const DriverLibrary& driver, int index, KernelImages images)
      : driver_(driver), calls_(driver.functions()), index_(index), images_(images) {}
  Result<std::array<std::uint8_t, 16>> uuid_of(vendor::DeviceNumber number) const;
  Status find_facts();
  bool is_known_and_free(StreamHandle stream) const;
  void pop();
  /// Sets what this thread must not call while streams are captured; `mode`: to this, from what.
  Status exchange_rules(vendor::CaptureMode& mode);
  /// This thread captures no more.
  void forget_capture();
  Status load_kernels() HVD_REQUIRES(mutex_);
  Status find_kernel(std::string_view name) HVD_REQUIRES(mutex_);
  Result<vendor::Event> take_event();
  void take_back(void* event) override;
  /// "GPU 0 (NVIDIA H100): " before a failure.
  Status about(const Status& status) const;
  /// Calls the driver with this GPU current.
  template <typename Function, typename... Args>
  Status run(const DriverFunction<Function>& function, Args... args) {
    HVD_TRY(enter());
    const Status status = driver_.run(function, args...);
    leave();
    return status.is_ok() ? status : about(status);
  }

  const DriverLibrary& driver_;
  const DriverFunctions& calls_;
  const int index_;
  const KernelImages images_;
  std::uint64_t id_ = 0;  ///< Of no other GPU that was ever opened here.
  vendor::DeviceNumber number_{};
  vendor::Context context_{};
  GpuFacts facts_;

  Mutex mutex_;
  /// Events that nobody holds: to make one costs more than to record it.
  std::vector<vendor::Event> free_events_ HVD_GUARDED_BY(mutex_);
  vendor::Module module_ HVD_GUARDED_BY(mutex_) = nullptr;
  std::map<std::string, vendor::Function, std::less<>> kernels_ HVD_GUARDED_BY(mutex_);
};

}  // namespace hvd
