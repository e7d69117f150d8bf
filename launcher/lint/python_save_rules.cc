// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/python_rules.h"
#include "launcher/lint/python_saves.h"

namespace hvd {
namespace {

/// Whether each process writes a file of its own.
bool is_file_of_rank(const PythonFacts& facts, const PythonSave& save) {
  if (!save.file) return false;
  return facts.guards.is_made_from_rank(save.file_line, *save.file) ||
         is_of_process(facts.values, save.file_line, *save.file);
}

void make_note(Finding& finding, const char* why, const char* fix) {
  finding.severity = Severity::kNote;
  finding.why = why;
  finding.fix = fix;
}

}  // namespace

std::vector<Finding> check_python_saves(const PythonFacts& facts) {
  std::vector<Finding> findings;
  for (const PythonSave& save : saves_of(facts.script, facts.values)) {
    const PythonCall& call = *save.call;
    if (is_file_of_rank(facts, save)) continue;
    const Reach reach = facts.reach.at(call.line_index, call.begin);
    if (reach == Reach::kSome) continue;
    Finding finding{.rule = "saved-by-all",
                    .severity = Severity::kError,
                    .line = call.line,
                    .variable = call.path,
                    .why =
                        "every rank writes the same file: they overwrite each other, and a "
                        "reader may find it half written",
                    .fix = "put it under if hvd.rank() == 0:"};
    if (reach == Reach::kUnknown) {
      make_note(finding,
                "nothing in the text says who calls this: whether rank 0 alone writes the file "
                "cannot be judged",
                "see that it is called under if hvd.rank() == 0:");
    } else if (!save.is_model) {
      make_note(finding, "every rank writes this file; whether a model is in it cannot be judged",
                "put it under if hvd.rank() == 0:, or the rank into the file's name");
    } else if (save.file && !is_like_path(facts.script, facts.values, save.file_line, *save.file)) {
      make_note(finding,
                "every rank does this; whether they write the same file cannot be judged: nothing "
                "in the text says what the name stands for",
                "put it under if hvd.rank() == 0:, unless it is a buffer in memory");
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace hvd
