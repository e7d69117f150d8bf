// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvd {

enum class Severity {
  kNote,     ///< Worth knowing; nothing is wrong.
  kWarning,  ///< Slower, fragile, or without the effect that was meant.
  kError,    ///< Refused, ignored, or wrong.
};

/// "note", "warning", "error"
std::string_view severity_name(Severity severity);

/// Replace bytes [begin, end) of the file by `text`.
struct Edit {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::string text;
};

/// One thing that is wrong, where, why, and what to do. Initialised all over, so that designated
/// initialisers may name a few fields.
struct Finding {
  std::string_view rule = {};  ///< Id of a row of the rule table.
  Severity severity = Severity::kWarning;
  int line = 0;               ///< From 1; 0: the file, or the environment, as a whole.
  std::string variable = {};  ///< Or the option.
  std::string why = {};
  std::string fix = {};
  std::string source = {};        ///< Where the fact was read, and when; empty: the rule says.
  std::optional<Edit> edit = {};  ///< Absent: no mechanical fix.
};

/// The findings of one file, or of the environment (an empty path).
struct LintedFile {
  std::string path;
  std::string site;  ///< The site it was held against; empty: none.
  std::vector<Finding> findings;
  std::vector<std::string> mended = {};  ///< What --fix changed, one sentence each.
  bool is_program = false;               ///< A Python program, of which the text alone was seen.
};

/// Whether something is wrong: an error or a warning; notes alone are not.
bool has_fault(const std::vector<Finding>& findings);

}  // namespace hvd
