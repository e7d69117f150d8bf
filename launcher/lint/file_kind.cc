// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/file_kind.h"

#include <algorithm>
#include <array>

#include "base/format.h"
#include "launcher/lint/python_program.h"
#include "launcher/lint/rule_table.h"

namespace hvd {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

/// "/usr/bin/env perl" of "#!/usr/bin/env perl"; empty: the first line names no interpreter.
std::string_view interpreter_of(std::string_view text) {
  if (!text.starts_with("#!")) return "";
  text =
      text.substr(2, text.find('\n') == std::string_view::npos ? text.npos : text.find('\n') - 2);
  const std::size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
  const std::size_t end = text.find_last_not_of(kBlanks);
  return end == std::string_view::npos ? "" : text.substr(begin, end + 1 - begin);
}

bool is_shell_name(std::string_view interpreter) {
  return interpreter.find("sh") != interpreter.npos;
}

bool is_for_sbatch(const SbatchFile& file) {
  return !file.directives.empty() || !file.broken.empty() || !file.switched_off.empty();
}

bool is_binary(std::string_view text) { return text.find('\0') != std::string_view::npos; }

/// A scheduler whose directives the file has; empty: none.
std::string_view other_scheduler(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kMarks{
      {{"\n#PBS ", "PBS"}, {"\n#BSUB ", "LSF"}, {"\n#flux:", "Flux"}, {"\n#COBALT ", "Cobalt"}}};
  for (const auto& [mark, name] : kMarks) {
    if (text.find(mark) != std::string_view::npos) return name;
  }
  return "";
}

}  // namespace

bool is_only_python(std::string_view path, std::string_view text) {
  return is_python(path, text) && text.find("SBATCH") == std::string_view::npos &&
         !is_binary(text) && text.find_first_not_of(kBlanks) != std::string_view::npos;
}

FileKind kind_of_file(std::string_view path, const SbatchFile& file) {
  const std::string_view text = file.text;
  if (is_binary(text) || text.find_first_not_of(kBlanks) == std::string_view::npos) {
    return FileKind::kOther;
  }
  if (is_for_sbatch(file)) return FileKind::kScript;
  if (is_python(path, text)) return FileKind::kPython;
  if (!other_scheduler(text).empty()) return FileKind::kOther;
  const std::string_view interpreter = interpreter_of(text);
  if (!interpreter.empty())
    return is_shell_name(interpreter) ? FileKind::kScript : FileKind::kOther;
  // Lines that job scripts source, and scripts whose options stand on sbatch's command line.
  const bool is_known = !file.variables.empty() || !file.modules.empty() || !file.launches.empty();
  return is_known ? FileKind::kScript : FileKind::kOther;
}

Finding no_script_finding(const SbatchFile& file) {
  const LintRule& rule = lint_rule("no-script");
  Finding finding{.rule = rule.id, .severity = rule.severity};
  finding.fix = "name a job script for sbatch, or a Python program";
  const std::string_view interpreter = interpreter_of(file.text);
  if (is_binary(file.text)) {
    finding.why = "the file is binary: sbatch refuses it, and lint does not read it";
  } else if (file.text.find_first_not_of(kBlanks) == std::string::npos) {
    finding.why = "the file is empty: sbatch refuses it";
  } else if (const std::string_view name = other_scheduler(file.text); !name.empty()) {
    finding.why = format_text("a job script for {}: lint reads those for sbatch", name);
    finding.fix = "`hvdrun header` writes the lines for sbatch";
  } else if (!interpreter.empty()) {
    finding.why = format_text("a program for {}, which lint does not read", interpreter);
  } else {
    finding.why =
        "no job script: it has neither a #! line nor an #SBATCH line, and nothing in it "
        "sets a variable, loads a module or starts tasks";
  }
  return finding;
}

}  // namespace hvd
