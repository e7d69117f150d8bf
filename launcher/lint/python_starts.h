// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/lint/python_program.h"

namespace hvd {

/// Whether something in a program, or in the modules beside it, gives all ranks the same weights:
/// a broadcast, hvd.Checkpoints, elastic training, DistributedDataParallel.
bool starts_ranks_alike(const PythonProgram& program);

}  // namespace hvd
