// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/lint/finding.h"
#include "launcher/lint/sbatch_file.h"
#include "launcher/site/site.h"

namespace hvd {

/// Every finding of a script held against `site`, by line. Pure.
std::vector<Finding> lint_script(const SbatchFile& file, const SiteConfig& site,
                                 const std::string& slurm);

/// A script with its mechanical fixes made.
struct MendedScript {
  std::string text;
  std::vector<std::string> changes;  ///< One sentence each, in the order they were made.
};

/// Mends until nothing mechanical is left: what comes out is not changed by mending it again. Pure.
MendedScript mend_script(const std::string& text, const SiteConfig& site, const std::string& slurm);

}  // namespace hvd
