// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"

namespace hvd {

/// What NVIDIA's driver calls an Xid: a fault of a GPU, or of what a program had it do.
std::string describe_xid(std::uint64_t xid);

/// Listens to NVML for faults of GPUs (Xid, and memory errors that ECC cannot mend), to tell an end
/// that they have caused from others. In a thread of its own: NVML takes its time to begin, and may
/// never answer again once a GPU is gone. So that thread outlives this object where it must.
class GpuFaults {
 public:
  GpuFaults() = default;

  /// `gpus`: PCI bus ids, or UUIDs ("GPU-...", "MIG-..."). Where NVML is missing, or refuses,
  /// nothing is ever heard.
  void listen(const std::string& library, const std::vector<std::string>& gpus);

  /// ", after its GPU 0000:07:00.0 reported Xid 79: ...", where it has reported something within
  /// the last minute; else empty. `gpu` empty: any of them, as it is not known which it had.
  std::string explain_end(const std::string& gpu, Clock::time_point now) const;

 private:
  struct Heard;
  std::shared_ptr<Heard> heard_;
};

}  // namespace hvd
