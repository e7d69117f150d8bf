// SPDX-License-Identifier: Apache-2.0
#include "base/settings_text.h"

#include <algorithm>
#include <limits>

#include "base/format.h"

namespace hvd {
namespace {

std::string_view unit_of(const Setting& setting) {
  if (setting.kind == SettingKind::kSeconds) return "seconds";
  if (setting.kind == SettingKind::kBytes) return "bytes";
  return setting.unit;
}

/// "from 1 to 16"; "from 0 on" where the type has no greater number.
std::string range_text(const Setting& setting) {
  if (setting.highest == std::numeric_limits<std::int64_t>::max()) {
    return format_text("from {} on", setting.lowest);
  }
  return format_text("from {} to {}", setting.lowest, setting.highest);
}

std::string list_text(const Setting& setting) {
  std::string list;
  for (const std::string_view word : words_of(setting)) {
    list.append(list.empty() ? "" : ", ").append(word);
  }
  return list;
}

/// The cell of the page.
std::string takes_text(const Setting& setting) {
  switch (setting.kind) {
    case SettingKind::kText:
      return "text";
    case SettingKind::kPath:
      return "path";
    case SettingKind::kSwitch:
      return "0 or 1";
    case SettingKind::kInteger:
    case SettingKind::kSeconds:
    case SettingKind::kBytes:
      return format_text("{} {}", unit_of(setting), range_text(setting));
    case SettingKind::kChoice:
      return "one word";
    case SettingKind::kWords:
      return "words";
  }
  return "";
}

std::string_view reader_text(Reader reader) {
  switch (reader) {
    case Reader::kLibhvd:
      return "libhvd";
    case Reader::kHvdrun:
      return "hvdrun";
    case Reader::kPython:
      return "Python";
    case Reader::kScripts:
      return "scripts";
  }
  return "";
}

std::string_view kind_text(SettingKind kind) {
  switch (kind) {
    case SettingKind::kText:
      return "text";
    case SettingKind::kPath:
      return "path";
    case SettingKind::kSwitch:
      return "switch";
    case SettingKind::kInteger:
      return "integer";
    case SettingKind::kSeconds:
      return "seconds";
    case SettingKind::kBytes:
      return "bytes";
    case SettingKind::kChoice:
      return "choice";
    case SettingKind::kWords:
      return "words";
  }
  return "";
}

constexpr const char* kModuleHead = R"(# SPDX-License-Identifier: Apache-2.0
# Written by scripts/update_pages.sh from runtime/base/settings.cc.
# ruff: noqa: E501
"""The environment variables that users set: a row each."""

from __future__ import annotations

# As the fields of hvd.settings.Setting.
ROWS: tuple[tuple[str, str, int, int, int | None, str, str, bool, str, str, str], ...] = (
)";

/// A string of Python, as ruff writes it.
std::string quoted(std::string_view text) {
  const char mark = text.find('"') != std::string_view::npos ? '\'' : '"';
  return format_text("{}{}{}", mark, text, mark);
}

}  // namespace

std::vector<std::string_view> words_of(const Setting& setting) {
  std::vector<std::string_view> words;
  std::string_view rest = setting.values;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    words.push_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return words;
}

std::string taken_text(const Setting& setting) {
  if (setting.kind == SettingKind::kText) return "a text";
  if (setting.kind == SettingKind::kPath) return "a path";
  if (setting.kind == SettingKind::kWords) return "words of " + list_text(setting);
  if (setting.kind == SettingKind::kSwitch) return "0 or 1";
  if (setting.kind == SettingKind::kChoice) return "one of " + list_text(setting);
  const std::string_view unit = unit_of(setting);
  return format_text("a whole number{}{} {}", unit.empty() ? "" : " of ", unit,
                     range_text(setting));
}

std::string remedy_text(const Setting& setting) {
  switch (setting.kind) {
    case SettingKind::kText:
    case SettingKind::kPath:
    case SettingKind::kWords:
      return "another";
    case SettingKind::kInteger:
      return "a number in this range";
    case SettingKind::kSwitch:
      return "0 for off or 1 for on";
    case SettingKind::kBytes:
      return "digits alone, without a unit";
    case SettingKind::kSeconds:
      return "digits alone, such as " + std::to_string(setting.initial.value_or(setting.lowest));
    case SettingKind::kChoice:
      return "one of these, in this spelling";
  }
  return "";
}

std::string default_text(const Setting& setting) {
  return setting.initial ? std::to_string(*setting.initial) : std::string(setting.standard);
}

std::string plain_text(std::string_view markdown) {
  std::string text;
  for (std::size_t i = 0; i < markdown.size(); ++i) {
    const char c = markdown[i];
    if (c == ']' && i + 1 < markdown.size() && markdown[i + 1] == '(') {
      i = std::min(markdown.find(')', i), markdown.size());
    } else if (c != '`' && c != '[' && c != ']') {
      text += c;
    }
  }
  return text;
}

std::string settings_table() {
  std::string text = "| variable | takes | default | acts in | meaning |\n|---|---|---|---|---|\n";
  for (const Setting& setting : settings()) {
    text += format_text("| `{}` | {} | {} | {} | {} |\n", setting.name, takes_text(setting),
                        default_text(setting), reader_text(setting.read_by), setting.meaning);
  }
  return text;
}

std::string settings_module() {
  std::string text = kModuleHead;
  for (const Setting& setting : settings()) {
    const std::string initial = setting.initial ? std::to_string(*setting.initial) : "None";
    text += "    (\n";
    for (const std::string& cell :
         {quoted(setting.name), quoted(kind_text(setting.kind)), std::to_string(setting.lowest),
          std::to_string(setting.highest), initial, quoted(taken_text(setting)),
          quoted(remedy_text(setting)), std::string(setting.fails_start ? "True" : "False"),
          quoted(plain_text(default_text(setting))), quoted(reader_text(setting.read_by)),
          quoted(plain_text(setting.meaning))}) {
      text += format_text("        {},\n", cell);
    }
    text += "    ),\n";
  }
  return text + ")\n";
}

}  // namespace hvd
