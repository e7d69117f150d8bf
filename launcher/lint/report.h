// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/lint/finding.h"

namespace hvd {

/// For people; `color` writes escape sequences.
std::string report_text(const std::vector<LintedFile>& files, bool color);

/// Workflow commands: "::warning file=job.sbatch,line=3,title=...::..."
std::string report_github(const std::vector<LintedFile>& files);

/// An object with "files" and "summary".
std::string report_json(const std::vector<LintedFile>& files);

/// SARIF 2.1.0; `version` is hvdrun's.
std::string report_sarif(const std::vector<LintedFile>& files, std::string_view version);

}  // namespace hvd
