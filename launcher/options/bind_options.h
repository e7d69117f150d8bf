// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "topology/cpu_set.h"

namespace hvd {

enum class BindPolicy {
  kDefault,  ///< Cores where hvdrun is given a mask to divide: by Slurm, or where there are GPUs.
  kNone,
  kCores,   ///< Each rank its share of the cores, near its GPU.
  kNuma,    ///< Each rank the cores of one NUMA node.
  kSocket,  ///< Each rank the cores of one socket.
  kMap,     ///< Each rank the CPUs that the user names.
};

enum class SmtUse {
  kAsGiven,  ///< The hardware threads that the mask has.
  kAll,      ///< All hardware threads of each core.
  kOne,      ///< One hardware thread of each core.
};

enum class MemoryBind {
  kDefault,  ///< Near the rank's CPUs, where no one else has said anything.
  kLocal,    ///< Near the rank's CPUs.
  kNone,
};

/// What the user asked of CPUs and memory.
struct BindOptions {
  BindPolicy policy = BindPolicy::kDefault;
  std::vector<CpuSet> map;  ///< BindPolicy::kMap: by local rank.
  SmtUse smt = SmtUse::kAsGiven;
  MemoryBind memory = MemoryBind::kDefault;
  bool report = false;
};

/// Reads "cores", "numa", "socket", "none" or "map:0-9:10-19" (one CPU list per local rank, between
/// colons) into policy and map. Anything else is kInvalidArgument.
Status parse_bind(std::string_view text, BindOptions& options);

/// The flags that say the same; empty where nothing was asked.
std::vector<std::string> bind_flags(const BindOptions& options);

}  // namespace hvd
