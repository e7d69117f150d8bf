// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

#include "base/result.h"

namespace hvd {

/// Reads a time limit as sbatch does: M, M:S, H:M:S, D-H, D-H:M or D-H:M:S.
Result<std::chrono::seconds> parse_time_limit(const std::string& text);

/// As Slurm writes it: "20:00:00", "4-04:00:00".
std::string time_limit_text(std::chrono::seconds time);

}  // namespace hvd
