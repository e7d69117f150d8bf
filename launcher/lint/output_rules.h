// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/lint/finding.h"
#include "launcher/lint/sbatch_file.h"

namespace hvd {

/// Folders of a script's output that are neither in the current folder nor beside the script at
/// `path`. Notes: the folder from which it will be submitted is not known.
std::vector<Finding> check_output_folders(const SbatchFile& file, const std::string& path);

}  // namespace hvd
