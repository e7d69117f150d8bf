// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/format.h"
#include "launcher/lint/report.h"
#include "launcher/lint/rule_table.h"

namespace hvd {
namespace {

struct Colors {
  std::string_view error;
  std::string_view warning;
  std::string_view note;
  std::string_view strong;
  std::string_view plain;
};

constexpr Colors kColors{"\033[1;31m", "\033[33m", "\033[36m", "\033[1m", "\033[0m"};

std::string_view color_of(Severity severity, const Colors& colors) {
  if (severity == Severity::kError) return colors.error;
  return severity == Severity::kWarning ? colors.warning : colors.note;
}

std::string place_of(const std::string& path, const Finding& finding) {
  if (path.empty()) return "environment";
  return finding.line == 0 ? path : format_text("{}:{}", path, finding.line);
}

std::string finding_text(const std::string& path, const Finding& finding, const Colors& colors) {
  std::string text = format_text("{}{}:{} {}{}:{} ", colors.strong, place_of(path, finding),
                                 colors.plain, color_of(finding.severity, colors),
                                 severity_name(finding.severity), colors.plain);
  if (!finding.variable.empty()) text += finding.variable + ": ";
  text += format_text("{} [{}]\n", finding.why, finding.rule);
  if (!finding.fix.empty()) text += format_text("    hint: {}\n", finding.fix);
  if (!finding.source.empty()) text += format_text("    source: {}\n", finding.source);
  return text;
}

struct Counts {
  int errors = 0;
  int warnings = 0;
  int notes = 0;
};

Counts counts_of(const std::vector<LintedFile>& files) {
  Counts counts;
  for (const LintedFile& file : files) {
    for (const Finding& finding : file.findings) {
      if (finding.severity == Severity::kError) ++counts.errors;
      if (finding.severity == Severity::kWarning) ++counts.warnings;
      if (finding.severity == Severity::kNote) ++counts.notes;
    }
  }
  return counts;
}

std::string counted(int count, std::string_view what) {
  return format_text("{} {}{}", count, what, count == 1 ? "" : "s");
}

/// What workflow commands take as text: a line, with the separators escaped.
std::string escaped(std::string_view text, bool is_property) {
  std::string escaped;
  for (const char letter : text) {
    if (letter == '%') {
      escaped += "%25";
    } else if (letter == '\r') {
      escaped += "%0D";
    } else if (letter == '\n') {
      escaped += "%0A";
    } else if (is_property && letter == ':') {
      escaped += "%3A";
    } else if (is_property && letter == ',') {
      escaped += "%2C";
    } else {
      escaped += letter;
    }
  }
  return escaped;
}

std::string github_line(const std::string& path, const Finding& finding) {
  const std::string_view level =
      finding.severity == Severity::kNote ? "notice" : severity_name(finding.severity);
  std::string properties;
  if (!path.empty()) properties += format_text("file={},", escaped(path, true));
  if (!path.empty() && finding.line > 0) properties += format_text("line={},", finding.line);
  std::string message = finding.variable.empty() ? "" : finding.variable + ": ";
  message += finding.why;
  if (!finding.fix.empty()) message += format_text("\nhint: {}", finding.fix);
  if (!finding.source.empty()) message += format_text("\nsource: {}", finding.source);
  return format_text("::{} {}title=hvdrun lint {}::{}\n", level, properties, finding.rule,
                     escaped(message, false));
}

}  // namespace

std::string report_text(const std::vector<LintedFile>& files, bool color) {
  const Colors colors = color ? kColors : Colors{};
  std::string text;
  for (const LintedFile& file : files) {
    for (const std::string& change : file.mended) {
      text += format_text("{}: mended: {}\n", file.path, change);
    }
    for (const Finding& finding : file.findings) text += finding_text(file.path, finding, colors);
  }
  const Counts counts = counts_of(files);
  if (counts.errors + counts.warnings + counts.notes == 0) {
    const bool has_program = std::any_of(files.begin(), files.end(),
                                         [](const LintedFile& file) { return file.is_program; });
    return text + (has_program ? "nothing is wrong, as far as the text of a program shows\n"
                               : "nothing is wrong\n");
  }
  return text + format_text("{}, {}, {}\n", counted(counts.errors, "error"),
                            counted(counts.warnings, "warning"), counted(counts.notes, "note"));
}

std::string report_github(const std::vector<LintedFile>& files) {
  std::string text;
  for (const LintedFile& file : files) {
    for (const Finding& finding : file.findings) text += github_line(file.path, finding);
  }
  return text;
}

}  // namespace hvd
