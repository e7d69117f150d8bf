// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace hvd {

enum class LintFormat {
  kText,
  kJson,
  kGithub,  ///< Workflow commands: each finding is an annotation of a pull request.
  kSarif,   ///< SARIF 2.1.0, for code scanning.
};

/// What the user typed after `hvdrun lint`.
struct LintOptions {
  std::vector<std::string> files;
  bool environment = false;  ///< --env: this environment on this machine.
  bool fix = false;          ///< --fix: write the mended files.
  std::string site;          ///< Empty: by the file's content, then by this machine.
  std::string slurm;         ///< Version of the cluster's Slurm; empty: unknown.
  LintFormat format = LintFormat::kText;
};

}  // namespace hvd
