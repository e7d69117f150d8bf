// SPDX-License-Identifier: Apache-2.0
// A build without headers of CUDA or ROCm.
#include "device/gpu.h"

namespace hvd {
namespace {

Status missing() {
  return error(Code::kUnsupported,
               "this build has no part for GPUs: the CUDA headers were missing when it was built "
               "(scripts/gpu_packages.sh brings them); use tensors in CPU memory");
}

class NoGpus final : public Gpus {
 public:
  Result<Gpu*> open(Device) override { return missing(); }
  Result<int> count() override { return missing(); }
};

}  // namespace

DeviceKind gpu_kind_of_build() { return DeviceKind::kCpu; }
std::unique_ptr<Gpus> find_gpus(const Environment&) { return std::make_unique<NoGpus>(); }

}  // namespace hvd
