// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"
#include "launcher/site/site.h"

namespace hvd {

/// The options that a site wants of srun for a step with hvdrun in its tasks: its --mpi,
/// --gpu-bind (of a step with GPUs), `srun_flags`, and those for more than one node.
std::vector<std::string> site_step_flags(const SiteConfig& site, int nodes, bool has_gpus);

/// "--gpu-bind" of "--gpu-bind=none".
std::string_view flag_name(std::string_view word);

/// Those of `flags` that the environment of srun does not decide already (SLURM_GPU_BIND for
/// --gpu-bind). A value that is a word of its own goes with its option.
std::vector<std::string> undecided_flags(const std::vector<std::string>& flags,
                                         const Environment& environment);

}  // namespace hvd
