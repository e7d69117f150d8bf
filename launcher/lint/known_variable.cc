// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/known_variable.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/check.h"
#include "base/format.h"
#include "base/settings.h"
#include "launcher/options/nearest.h"
#include "topology/launch_table.h"

namespace hvd {
namespace {

/// Short names differ from each other by two letters and mean it; long ones rarely.
std::size_t tolerated_slips(std::string_view name, const VariableFamily& family) {
  const std::size_t own = name.size() - std::min(name.size(), family.prefix.size());
  return own < 5 ? 1 : 2;
}

/// What stands before the next `end`, cut off `text` with it.
std::string_view cut(std::string_view& text, char end) {
  const std::size_t at = std::min(text.find(end), text.size());
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return part;
}

long long leading_digits(std::string_view text) {
  long long number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  HVD_CHECK(parsed.ec == std::errc());  // the generator wrote it
  return number;
}

KnownVariable variable_of(std::string_view row) {
  KnownVariable known{};
  known.name = cut(row, '\t');
  known.kind = static_cast<ValueKind>(leading_digits(cut(row, '\t')));
  known.lowest = leading_digits(cut(row, '\t'));
  known.highest = leading_digits(cut(row, '\t'));
  known.case_sensitive = leading_digits(cut(row, '\t')) != 0;
  known.fails_start = leading_digits(cut(row, '\t')) != 0;
  for (std::string_view* field :
       {&known.values, &known.since, &known.deprecated, &known.removed, &known.renamed_in,
        &known.renamed_to, &known.replacement, &known.note, &known.source, &known.date}) {
    *field = cut(row, '\t');
  }
  return known;
}

ValueKind kind_of(SettingKind kind) {
  switch (kind) {
    case SettingKind::kSwitch:
      return ValueKind::kSwitch;
    case SettingKind::kInteger:
    case SettingKind::kSeconds:
    case SettingKind::kBytes:
      return ValueKind::kInteger;
    case SettingKind::kChoice:
      return ValueKind::kOneOf;
    case SettingKind::kWords:
      return ValueKind::kList;
    case SettingKind::kText:
    case SettingKind::kPath:
      break;
  }
  return ValueKind::kAny;
}

KnownVariable variable_of(const Setting& setting) {
  KnownVariable known{};
  known.name = setting.name;
  known.kind = kind_of(setting.kind);
  known.lowest = setting.lowest;
  known.highest = setting.highest;
  known.case_sensitive = !setting.values.empty();
  known.fails_start = setting.fails_start;
  known.values = setting.values;
  known.note = setting.note;
  return known;
}

/// Those of ours, by their own tables.
std::vector<KnownVariable> own_variables() {
  std::vector<KnownVariable> variables;
  for (const Setting& setting : settings()) {
    if (family_of(setting.name) == nullptr) continue;  // NO_COLOR, COLUMNS
    variables.push_back(variable_of(setting));
  }
  for (const LaunchVariables& row : launch_variables()) {
    for (const std::string_view name : row.names) {
      if (name.empty()) continue;
      KnownVariable& known = variables.emplace_back();
      known.name = name;
      known.note = "set by hvdrun, not by hand";
    }
  }
  return variables;
}

std::vector<KnownVariable> read_rows() {
  std::vector<KnownVariable> variables;
  for (std::string_view rows : variable_rows()) {
    while (!rows.empty()) variables.push_back(variable_of(cut(rows, '\n')));
  }
  // All are documented on one page, which the file names.
  const auto of_hvd = std::find_if(variables.begin(), variables.end(), [](const auto& known) {
    return known.name.starts_with("HVD_");
  });
  HVD_CHECK(of_hvd != variables.end());
  const KnownVariable documented = *of_hvd;
  for (KnownVariable& known : own_variables()) {
    known.source = documented.source;
    known.date = documented.date;
    variables.push_back(known);
  }
  std::sort(variables.begin(), variables.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return variables;
}

}  // namespace

std::span<const KnownVariable> known_variables() {
  static const std::vector<KnownVariable> variables = read_rows();
  return variables;
}

const KnownVariable* find_variable(std::string_view name) {
  const std::span<const KnownVariable> all = known_variables();
  const auto after = std::upper_bound(
      all.begin(), all.end(), name,
      [](std::string_view wanted, const KnownVariable& known) { return wanted < known.name; });
  if (after != all.begin() && std::prev(after)->name == name) return &*std::prev(after);
  for (const KnownVariable& known : all) {
    if (!known.name.ends_with('*')) continue;
    if (name.starts_with(known.name.substr(0, known.name.size() - 1))) return &known;
  }
  return nullptr;
}

const VariableFamily* family_of(std::string_view name) {
  for (const VariableFamily& family : variable_families()) {
    if (name.starts_with(family.prefix)) return &family;
  }
  return nullptr;
}

std::string_view nearest_variable(std::string_view name) {
  const VariableFamily* family = family_of(name);
  if (family == nullptr) return {};
  std::string_view nearest;
  std::size_t fewest = tolerated_slips(name, *family) + 1;
  for (const KnownVariable& known : known_variables()) {
    if (!known.name.starts_with(family->prefix) || known.name.ends_with('*')) continue;
    const std::size_t longer = std::max(name.size(), known.name.size());
    if (longer - std::min(name.size(), known.name.size()) > fewest) continue;
    const std::size_t slips = edit_distance(name, known.name);
    // What was removed is not a likely target, unless nothing else is as near.
    if (slips < fewest || (slips == fewest && !nearest.empty() && known.removed.empty() &&
                           !find_variable(nearest)->removed.empty())) {
      fewest = slips;
      nearest = known.name;
    }
  }
  return nearest;
}

std::string source_of(const KnownVariable& variable) {
  return format_text("{}, {}", variable.source, variable.date);
}

}  // namespace hvd
