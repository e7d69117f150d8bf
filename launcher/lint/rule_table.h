// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include "launcher/lint/finding.h"

namespace hvd {

/// One kind of finding. The table is what docs/reference/lint.md and SARIF's rule list say.
struct LintRule {
  std::string_view id;
  Severity severity;  ///< The usual one; a finding may be milder.
  std::string_view title;
  std::string_view why;
  bool is_mended;  ///< --fix has a mechanical fix, at least in some cases.
};

std::span<const LintRule> lint_rules();

/// Aborts when there is none: the ids are ours.
const LintRule& lint_rule(std::string_view id);

}  // namespace hvd
