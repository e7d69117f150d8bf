// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/known_variable.h"

#include <algorithm>

#include "base/format.h"
#include "launcher/options/nearest.h"

namespace hvd {
namespace {

/// Short names differ from each other by two letters and mean it; long ones rarely.
std::size_t tolerated_slips(std::string_view name, const VariableFamily& family) {
  const std::size_t own = name.size() - std::min(name.size(), family.prefix.size());
  return own < 5 ? 1 : 2;
}

}  // namespace

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
    // What was removed is no likely target, unless nothing else is as near.
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
