// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/environment.h"
#include "base/result.h"
#include "launcher/options/job_options.h"
#include "launcher/site/site.h"
#include "launcher/site/site_index.h"

namespace hvd {

/// Options with what files gave where the user typed nothing.
struct DefaultedOptions {
  JobOptions options;
  std::vector<std::string> origins;  ///< "/home/me/.config/hvdrun/defaults.json gives account"
  /// Of files of the system that cannot be used, and of sites that nobody knows.
  std::vector<std::string> warnings;
};

/// The paths of the files, whether they are there or not: defaults.json in config_folders.
std::vector<std::string> defaults_files(const Environment& environment);

/// Everything that is wrong with that file, also sites that are not among `entries`: see
/// document_status.
Status check_defaults(const std::string& path, const std::vector<SiteEntry>& entries);

/// Puts the values of the files where `typed` says nothing: what a file says of the site comes
/// before what it says of all, and the user's file before the system's. A wrong file of the user is
/// an error.
Result<DefaultedOptions> with_defaults(const JobOptions& typed, const SiteConfig& site,
                                       const Environment& environment);

}  // namespace hvd
