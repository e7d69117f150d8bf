// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/environment.h"

namespace hvd {

/// Who is asked about the live cluster.
enum class LiveWay {
  kNone,
  kLibrary,   ///< libslurm, in a process of its own.
  kCommands,  ///< scontrol
};

/// What of Slurm is on this machine.
struct SlurmFacts {
  std::string conf;             ///< Path of the slurm.conf; empty: none was found.
  bool has_scontrol = false;    ///< In PATH.
  std::string library;          ///< "libslurm.so.38": the one of this build; empty: none.
  std::string library_problem;  ///< Why it cannot be used; empty: it can, or there is no conf.
};

SlurmFacts read_slurm_facts(const Environment& environment);

struct LiveSource {
  LiveWay way = LiveWay::kNone;
  std::string reason;  ///< In words.
};

/// libslurm only where there is a slurm.conf (without one it blocks for a minute or ends the
/// process) and only the release that hvdrun was compiled for, else the commands. Pure.
LiveSource choose_live_source(const SlurmFacts& facts);

}  // namespace hvd
