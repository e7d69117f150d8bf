// SPDX-License-Identifier: Apache-2.0
#include "launcher/describe/completion.h"

#include <algorithm>

namespace hvd {

Candidates candidates_of(const OptionDescription& option) {
  using Kind = Candidates::Kind;
  std::vector<std::string> choices = option.choices();
  if (!choices.empty()) return {Kind::kWords, std::move(choices)};
  if (option.value.starts_with("SITE")) return {Kind::kSite, {}};
  if (option.value.starts_with("PARTITION")) return {Kind::kPartition, {}};
  if (option.value.starts_with("COMMAND")) return {Kind::kCommand, {}};
  if (option.value.starts_with("FILE")) return {Kind::kFile, {}};
  if (option.value.starts_with("DIR")) return {Kind::kFolder, {}};
  return {Kind::kText, {}};
}

Candidates operands_of(const CommandDescription& command) {
  if (command.takes_program()) return {Candidates::Kind::kProgram, {}};
  for (const OptionDescription& option : command.options) {
    if (!option.is_operand()) continue;
    Candidates candidates = candidates_of(option);
    // "[SITE|new]": a word that may stand in place of a name
    const std::size_t bar = command.operands.find('|');
    if (candidates.kind == Candidates::Kind::kSite && bar != std::string::npos) {
      const std::size_t end = command.operands.find(']', bar);
      candidates.words.push_back(command.operands.substr(bar + 1, end - bar - 1));
    }
    return candidates;
  }
  return {Candidates::Kind::kText, {}};
}

std::string menu_text(std::string_view meaning) {
  constexpr std::size_t kEnough = 16;  // "With -np: ..." says nothing yet
  std::size_t end = meaning.size();
  for (const char* stop : {". ", "; ", ": ", " ("}) {
    end = std::min(end, meaning.find(stop, std::min(kEnough, meaning.size())));
  }
  std::string text;
  for (const char letter : meaning.substr(0, end)) {
    if (std::string_view("'\"`[]\\$").find(letter) == std::string_view::npos) text += letter;
  }
  return text;
}

std::string replaced(std::string text, std::string_view mark, std::string_view by) {
  for (std::size_t at = text.find(mark); at != std::string::npos;
       at = text.find(mark, at + by.size())) {
    text.replace(at, mark.size(), by);
  }
  return text;
}

}  // namespace hvd
