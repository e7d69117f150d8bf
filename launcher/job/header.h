// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/options/header_options.h"
#include "launcher/site/site.h"
#include "launcher/site/site_environment.h"

namespace hvd {

/// One `#SBATCH --option=value` line.
struct HeaderDirective {
  std::string option;
  std::string value;  ///< Empty: a flag.
};

/// Everything that a header or script says, decided and checked; the templates only spell it.
struct HeaderModel {
  std::string shell;
  std::vector<std::string> notes;  ///< Comments for the reader.
  std::vector<HeaderDirective> directives;
  std::vector<std::string> modules;
  std::vector<SiteVariable> historical;  ///< Variables kept as text.
  std::vector<PlannedVariable> environment;
  std::vector<std::string> srun_flags;
  std::vector<std::string> command;  ///< Empty: a header only.
};

/// Decides the header of a job at `site`. Errors say what does not fit and what to type instead.
Result<HeaderModel> plan_header(const SiteConfig& site, const HeaderOptions& request);

}  // namespace hvd
