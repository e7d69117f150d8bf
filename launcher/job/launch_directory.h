// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/result.h"

namespace hvd {

/// What a launch directory keeps beside the job's output: enough to say later what ran, and to
/// submit it again.
struct LaunchFiles {
  std::string script;       ///< job.sh
  std::string environment;  ///< environment, readable by the user alone
  std::string command;      ///< command.sh
  std::string site;         ///< site.txt
};

/// The folder for a submission: `typed`, else the first hvdrun-jobs/NAME-DATE-N that is not there
/// yet. Absolute. Made, unless `only_look`. A typed one that holds a job already is refused.
Result<std::string> choose_launch_directory(const std::string& typed, const std::string& name,
                                            bool only_look);

Status write_launch_directory(const std::string& folder, const LaunchFiles& files);

}  // namespace hvd
