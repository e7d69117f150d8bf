// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/node/gpu_faults.h"
#include "launcher/plan/command.h"
#include "launcher/run/memory_events.h"

namespace hvd {

/// What is behind the end of a rank of this host, where the kernel or the driver of its GPU tells.
/// Not thread-safe.
class EndCauses {
 public:
  /// Once the ranks have been started, as it starts a thread where they have GPUs.
  void listen_for(const std::vector<Command>& commands);
  /// ", probably out of memory: ...", ", after its GPU ... reported ..."; empty: nothing is known.
  /// `status`: as waitpid gives it.
  std::string explain(int status, const Command& command);

  /// To be called when `next` has come.
  void advance(Clock::time_point now) { memory_.advance(now); }
  Deadline next() const { return memory_.next(); }

 private:
  MemoryEvents memory_;
  GpuFaults gpus_;
};

}  // namespace hvd
