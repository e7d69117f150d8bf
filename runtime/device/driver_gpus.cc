// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "device/driver_gpu.h"
#include "device/driver_library.h"
#include "device/gpu.h"
#include "device/kernels/kernel_image.h"

namespace hvd {
namespace {

class DriverGpus final : public Gpus {
 public:
  explicit DriverGpus(GpuDriverSettings settings) : settings_(std::move(settings)) {}

  Result<Gpu*> open(Device device) override {
    if (device.kind != vendor::kDeviceKind) {
      return error(Code::kUnsupported,
                   "this build serves {} GPUs ({}), the tensor lies on another kind; "
                   "hvdrun check --build tells what a build serves",
                   vendor::kVendor, vendor::kPlatform);
    }
    HVD_TRY_ASSIGN(const int count, this->count());
    if (device.index < 0 || device.index >= count) {
      return error(Code::kInvalidArgument, "there is no GPU {}: this process sees {}{}",
                   device.index, count, visible());
    }
    Lock lock(mutex_);
    auto& gpu = gpus_[static_cast<std::size_t>(device.index)];
    if (gpu == nullptr) {
      HVD_TRY_ASSIGN(gpu, DriverGpu::open(*driver_, device.index, kernel_image));
    }
    return static_cast<Gpu*>(gpu.get());
  }

  Result<int> count() override {
    Lock lock(mutex_);
    if (!tried_) {
      tried_ = true;
      start_ = start();
    }
    HVD_TRY(start_);
    return static_cast<int>(gpus_.size());
  }

 private:
  Status start() HVD_REQUIRES(mutex_) {
    HVD_TRY_ASSIGN(driver_, DriverLibrary::load(settings_));
    int count = 0;
    Status status = driver_->run(driver_->functions().initialise, 0U);
    if (status.is_ok()) status = driver_->run(driver_->functions().device_count, &count);
    if (status.is_ok() && count == 0) {
      status = driver_->failure(driver_->functions().device_count.name, vendor::kNoDevice);
    }
    if (!status.is_ok()) {
      return error(Code::kUnsupported, "no GPU can be used{}: {}", visible(), status.message());
    }
    gpus_.resize(static_cast<std::size_t>(count));
    return Status::ok();
  }

  /// " (CUDA_VISIBLE_DEVICES=0,1)", where it is set.
  std::string visible() const {
    return settings_.visible.empty() ? "" : format_text(" ({})", settings_.visible);
  }

  const GpuDriverSettings settings_;
  Mutex mutex_;
  bool tried_ HVD_GUARDED_BY(mutex_) = false;
  Status start_ HVD_GUARDED_BY(mutex_);
  std::unique_ptr<DriverLibrary> driver_ HVD_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<DriverGpu>> gpus_ HVD_GUARDED_BY(mutex_);
};

}  // namespace

DeviceKind gpu_kind_of_build() { return vendor::kDeviceKind; }

std::unique_ptr<Gpus> find_gpus(const GpuDriverSettings& settings) {
  return std::make_unique<DriverGpus>(settings);
}

}  // namespace hvd
