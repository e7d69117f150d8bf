// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/python_values.h"

#include <algorithm>
#include <set>

namespace hvd {
namespace {

/// Whether a token is a name by itself, or "name" of "self.name".
bool is_own_name(const PythonLine& line, std::size_t at) {
  if (!is_name(line.tokens[at])) return false;
  if (at + 1 < line.tokens.size() && is_operator(line.tokens[at + 1], "=")) return false;
  if (at == 0 || !is_operator(line.tokens[at - 1], ".")) return true;
  if (at == 1) return false;
  const bool is_of_self = line.tokens[at - 2].text == "self";
  return is_of_self && (at == 2 || !is_operator(line.tokens[at - 3], "."));
}

}  // namespace

PythonValues::PythonValues(const PythonScript& script, const std::vector<BlockPlace>& places,
                           const std::vector<PythonBinding>& bindings)
    : script_(script), places_(places) {
  for (const PythonBinding& one : bindings) bindings_[{one.name, one.function}].push_back(&one);
}

const PythonBinding* PythonValues::last_before(std::size_t line_index,
                                               const std::vector<const PythonBinding*>& all) const {
  constexpr int kMostSteps = 64;
  const std::size_t function = places_[line_index].function;
  auto one = std::lower_bound(
      all.begin(), all.end(), line_index,
      [](const PythonBinding* binding, std::size_t index) { return binding->line_index < index; });
  const PythonBinding* same_line =
      one != all.end() && (*one)->line_index == line_index ? *one : nullptr;
  for (int step = 0; one != all.begin() && step < kMostSteps; ++step) {
    --one;
    if (places_[(*one)->line_index].function == function) return *one;
    if (function != kNoLine && (*one)->line_index < function) break;
  }
  return same_line;
}

std::vector<const PythonBinding*> PythonValues::of(std::size_t line_index,
                                                   const std::string& name) const {
  const auto first_of = [](const std::vector<const PythonBinding*>& all) {
    constexpr std::ptrdiff_t kMost = 4;
    const auto count = std::min(kMost, static_cast<std::ptrdiff_t>(all.size()));
    return std::vector<const PythonBinding*>(all.begin(), all.begin() + count);
  };
  const auto plain = bindings_.find({name, kNoLine});
  if (plain != bindings_.end()) {
    const PythonBinding* last = last_before(line_index, plain->second);
    if (last != nullptr) return {last};
  }
  for (std::size_t at = places_[line_index].function; at != kNoLine; at = places_[at].function) {
    const auto given = bindings_.find({name, at});
    if (given != bindings_.end()) return first_of(given->second);
  }
  return plain == bindings_.end() ? std::vector<const PythonBinding*>() : first_of(plain->second);
}

bool PythonValues::any(std::size_t line_index, TokenRange value, const Predicate& predicate) const {
  constexpr std::size_t kMostValues = 32;
  struct Place {
    std::size_t line_index;
    TokenRange range;
  };
  std::vector<Place> places{{line_index, value}};
  std::set<const PythonBinding*> seen;
  for (std::size_t i = 0; i < places.size() && i < kMostValues; ++i) {
    const Place place = places[i];
    const PythonLine& line = script_.lines[place.line_index];
    for (std::size_t at = place.range.begin; at < place.range.end; ++at) {
      if (predicate(line, at)) return true;
      if (!is_own_name(line, at)) continue;
      for (const PythonBinding* one : of(place.line_index, line.tokens[at].text)) {
        if (seen.insert(one).second) places.push_back({one->line_index, one->value});
      }
    }
  }
  return false;
}

}  // namespace hvd
