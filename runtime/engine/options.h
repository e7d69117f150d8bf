// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "collective/nccl_settings.h"
#include "device/gpu.h"
#include "device/gpu_driver_settings.h"
#include "engine/timeline/timeline_options.h"

namespace hvd {

/// Options of an engine, given at its start.
struct EngineOptions {
  std::size_t fusion_bytes = std::size_t{64} << 20;  ///< HVD_FUSION_THRESHOLD.
  std::chrono::milliseconds stall_warning{60'000};   ///< HVD_STALL_CHECK_TIME_SECONDS; 0: never.
  /// HVD_STALL_SHUTDOWN_TIME_SECONDS; 0: never. At least stall_warning, and nothing without it.
  std::chrono::milliseconds stall_shutdown{0};
  std::chrono::milliseconds heartbeat{500};  ///< Between nodes.
  /// HVD_LINK_TIMEOUT_SECONDS: a host that does not answer for so long is lost.
  std::chrono::milliseconds link_timeout{3'000};
  /// HVD_SILENCE_TIMEOUT_SECONDS: so is a process that is silent for so long though its host
  /// answers; 0: never.
  std::chrono::milliseconds silence_timeout{300'000};
  int spin = -1;  ///< Polls before yielding; -1: from the CPUs.
  /// Called once, on any thread, before the loss of a rank is told to any caller; `has_left`: it
  /// had said farewell.
  std::function<void(int lost, bool has_left)> on_loss;
  std::string backend;       ///< HVD_BACKEND: use this backend only; empty: the first that can.
  bool direct = true;        ///< HVD_DIRECT: small known requests need no negotiation.
  TimelineOptions timeline;  ///< HVD_TIMELINE: on from the start; without a path: off.
  NcclSettings nccl = {};    ///< For the backend of that name.
  GpuDriverSettings gpu_driver = {};  ///< That of `gpus`, for what describe() says.
  Gpus* gpus = nullptr;               ///< For tensors of GPU memory; null: they are refused.
  /// A process that starts another engine gives it other handles, so that the old are unknown.
  std::uint64_t first_handle = 1;

  /// Who chose a backend wants it to do all; direct rounds in a node are as good as its own.
  bool has_direct(int node_count) const {
    return direct && (backend.empty() || (backend == "shm" && node_count == 1));
  }
};

}  // namespace hvd
