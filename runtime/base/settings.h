// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace hvd {

enum class SettingKind {
  kText,
  kPath,     ///< Of a file or a folder; or several, colon-separated.
  kSwitch,   ///< 0 or 1.
  kInteger,  ///< A whole number in [lowest, highest].
  kSeconds,  ///< The same, of seconds.
  kBytes,    ///< The same, of bytes.
  kChoice,   ///< One of the values.
  kWords,    ///< Values, comma-separated.
};

/// Where a setting acts.
enum class Reader { kLibhvd, kHvdrun, kPython, kScripts };

/// An environment variable that users set. This table is the only home of their names, ranges,
/// defaults and meanings: docs/reference/environment.md, Python's hvd/_core/setting_rows.py, the
/// rows of lint and what `hvdrun env --explain` says are made from it (base/settings_text.h);
/// values are read by it (base/read_setting.h). What hvdrun and libhvd tell each other is in
/// topology/launch_env.h.
struct Setting {
  std::string_view name;
  SettingKind kind = SettingKind::kText;
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
  std::string_view unit = {};    ///< What a kInteger counts, in the plural; empty: see the meaning.
  std::string_view values = {};  ///< kChoice, kWords: separated by spaces.
  std::optional<std::int64_t> initial = {};  ///< The number where it is unset; else see `standard`.
  std::string_view standard = {};            ///< What holds where it is unset; Markdown.
  Reader read_by = Reader::kLibhvd;
  std::string_view also = {};     ///< Horovod's name, read where this one is unset.
  bool fails_start = false;       ///< A wrong number fails hvd_init(); else see `note`.
  std::string_view note = {};     ///< What lint adds of a wrong value.
  std::string_view meaning = {};  ///< Markdown.

  bool is_number() const { return lowest < highest; }
};

/// All of them, in the order of the page.
std::span<const Setting> settings();
/// Null: not a setting.
const Setting* find_setting(std::string_view name);

}  // namespace hvd
