// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/environment.h"
#include "base/result.h"

namespace hvd {

enum class SettingKind {
  kText,
  kSwitch,  ///< 0 or 1.
  kNumber,  ///< A whole number in [lowest, highest], in the unit of its name.
  kChoice,  ///< One of the values.
  kWords,   ///< Values, comma-separated.
};

/// Who reads a setting.
enum class Reader { kLibhvd, kHvdrun, kPython, kScripts };

/// An environment variable that users set. This table is the only home of their names, ranges and
/// meanings: docs/reference/environment.md, the rows of lint and what `hvdrun env --explain` says
/// are made from it. What hvdrun and libhvd tell each other is in topology/launch_env.h.
struct Setting {
  std::string_view name;
  SettingKind kind = SettingKind::kText;
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
  std::string_view values = {};    ///< kChoice, kWords: separated by spaces.
  std::string_view standard = {};  ///< Where it is unset; Markdown.
  Reader read_by = Reader::kLibhvd;
  std::string_view also = {};     ///< Horovod's name, read where this one is unset.
  bool fails_start = false;       ///< A wrong number fails hvd_init(); else see `note`.
  std::string_view note = {};     ///< What lint adds of a wrong value.
  std::string_view meaning = {};  ///< Markdown.
};

/// All of them.
std::span<const Setting> settings();
/// Null: not a setting.
const Setting* find_setting(std::string_view name);

// `name` is one of settings(), by its own name.

/// The number of a kNumber or kSwitch; nothing where it is unset. kInvalidArgument: it is not a
/// whole number in the range, which the error names with variable and value.
Result<std::optional<long long>> read_number(const Environment& environment, std::string_view name);
/// A kSwitch; by its standard where it is unset.
Result<bool> read_switch(const Environment& environment, std::string_view name);
/// Empty where it is unset.
std::string read_text(const Environment& environment, std::string_view name);

/// Markdown of the table as plain text: without backticks, and links are their words. Pure.
std::string plain_text(std::string_view markdown);

/// The table of docs/reference/environment.md.
std::string settings_table();

}  // namespace hvd
