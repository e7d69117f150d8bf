// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/lint/sbatch_file.h"

namespace hvd {

/// The launchers of one line, from the outside in: "srun hvdrun torchrun train.py" has three.
/// `python -m torch.distributed.run` is a torchrun.
std::vector<LaunchLine> launch_chain(const LaunchLine& launch);

/// The Python file that a launch starts, as typed; absent: none is named, or only the shell knows.
std::optional<std::string> launched_script(const LaunchLine& launch);

/// The launch, with the options of `hvdrun run` or `accelerate launch` as its own.
LaunchLine without_run(const LaunchLine& launch);

/// N of -np N or -n N, as typed; absent: it is not there.
std::optional<std::string> rank_count(const LaunchLine& launch);

/// A whole number of digits alone; absent: the text is none.
std::optional<int> plain_number(const std::optional<std::string>& text);

}  // namespace hvd
