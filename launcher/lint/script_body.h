// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "launcher/lint/sbatch_file.h"

namespace hvd {

/// Finds what the commands of `file.text` from byte `begin` on set, load and launch.
void read_script_body(SbatchFile& file, std::size_t begin);

/// Whether a word names a program that starts tasks: srun, mpirun, hvdrun, torchrun and others.
bool is_launcher(std::string_view word);

}  // namespace hvd
