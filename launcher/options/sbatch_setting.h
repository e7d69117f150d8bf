// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/options/job_options.h"

namespace hvd {

/// What `--sbatch KEY[=VALUE]` says; refuses what is not an option of sbatch.
Result<SbatchSetting> parse_sbatch_setting(const std::string& text);

/// Puts each setting into the field of `options` that is its own, and the others into
/// `options.sbatch`. Refuses a value that is missing or too many, and one that contradicts an
/// option typed elsewhere.
Status take_sbatch_settings(const std::vector<SbatchSetting>& settings, JobOptions& options);

}  // namespace hvd
