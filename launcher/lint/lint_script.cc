// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/lint_script.h"

#include <algorithm>

#include "base/format.h"
#include "launcher/lint/header_rules.h"
#include "launcher/lint/site_facts.h"
#include "launcher/lint/variable_rules.h"

namespace hvd {
namespace {

/// A fix may bring up another; each round makes at least one, and no chain is as long as this.
constexpr int kMostRounds = 20;

/// The edits of a round that do not touch each other, from the last to the first byte.
std::vector<const Finding*> edits_of_round(const std::vector<Finding>& findings) {
  std::vector<const Finding*> chosen;
  for (const Finding& finding : findings) {
    if (!finding.edit) continue;
    const bool is_free = std::none_of(chosen.begin(), chosen.end(), [&](const Finding* other) {
      return finding.edit->begin <= other->edit->end && other->edit->begin <= finding.edit->end;
    });
    if (is_free) chosen.push_back(&finding);
  }
  std::sort(chosen.begin(), chosen.end(),
            [](const Finding* a, const Finding* b) { return a->edit->begin > b->edit->begin; });
  return chosen;
}

std::string change_of(const Finding& finding) {
  std::string text = finding.line > 0 ? format_text("line {}: ", finding.line) : "";
  if (!finding.variable.empty()) text += finding.variable + ": ";
  return format_text("{}{} [{}]", text, finding.fix, finding.rule);
}

}  // namespace

std::vector<Finding> lint_script(const SbatchFile& file, const SiteConfig& site,
                                 const std::string& slurm) {
  const JobRequest request = job_request(file);
  const ScriptFacts facts{file, request, site, partition_of_job(site, request), slurm};
  std::vector<Finding> findings;
  for (auto more :
       {check_syntax(facts), check_request(facts), check_shares(facts), check_limits(facts),
        check_site_options(facts), check_modules(facts), check_launches(facts), check_steps(facts),
        check_identity(facts), check_variables(file.variables, nullptr)}) {
    std::move(more.begin(), more.end(), std::back_inserter(findings));
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.line < b.line; });
  return findings;
}

MendedScript mend_script(const std::string& text, const SiteConfig& site,
                         const std::string& slurm) {
  MendedScript mended{text, {}};
  for (int round = 0; round < kMostRounds; ++round) {
    const std::vector<Finding> findings = lint_script(parse_sbatch_file(mended.text), site, slurm);
    const std::vector<const Finding*> chosen = edits_of_round(findings);
    if (chosen.empty()) break;
    std::string after = mended.text;
    for (const Finding* finding : chosen) {
      after.replace(finding->edit->begin, finding->edit->end - finding->edit->begin,
                    finding->edit->text);
    }
    if (after == mended.text) break;
    mended.text = std::move(after);
    for (auto finding = chosen.rbegin(); finding != chosen.rend(); ++finding) {
      mended.changes.push_back(change_of(**finding));
    }
  }
  return mended;
}

}  // namespace hvd
