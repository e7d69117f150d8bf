// SPDX-License-Identifier: Apache-2.0
// A build without headers of CUDA or ROCm.
#include "device/gpu.h"
#include "device/gpu_build.h"

namespace hvd {
namespace {

constexpr const char* kReason =
    "this build has no part for GPUs: the CUDA headers were missing when it was built "
    "(scripts/gpu_packages.sh brings them)";

Status missing() { return error(Code::kUnsupported, "{}; use tensors in CPU memory", kReason); }

class NoGpus final : public Gpus {
 public:
  Result<Gpu*> open(Device) override { return missing(); }
  Result<int> count() override { return missing(); }
};

}  // namespace

GpuPart describe_gpu_driver(const GpuDriverSettings& /*settings*/) {
  return {"GPU driver", false, kReason};
}
GpuPart describe_gpu_kernels() { return {"GPU kernels", false, kReason}; }

DeviceKind gpu_kind_of_build() { return DeviceKind::kCpu; }
std::unique_ptr<Gpus> find_gpus(const GpuDriverSettings& /*settings*/) {
  return std::make_unique<NoGpus>();
}
GpuDriverSettings GpuDriverSettings::from(const Environment&) { return {}; }

}  // namespace hvd
