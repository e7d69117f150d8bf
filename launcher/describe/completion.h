// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/options/command_description.h"

/// Completion scripts, made from the table of commands. What changes from site to site they ask
/// `hvdrun completion --values` for.
namespace hvd {

std::string bash_completion(const std::vector<CommandDescription>& commands);
std::string zsh_completion(const std::vector<CommandDescription>& commands);
std::string fish_completion(const std::vector<CommandDescription>& commands);

/// What may stand for a value: words by themselves, or a kind of name.
struct Candidates {
  enum class Kind { kText, kWords, kSite, kPartition, kCommand, kFile, kFolder, kProgram };
  Kind kind = Kind::kText;
  std::vector<std::string> words;  ///< Of kSite: in place of a site.
};
Candidates candidates_of(const OptionDescription& option);
/// Of what follows the options of the command.
Candidates operands_of(const CommandDescription& command);

/// The beginning of a meaning, short enough for a menu, without quotes and brackets.
std::string menu_text(std::string_view meaning);

/// `text` with every `mark` replaced.
std::string replaced(std::string text, std::string_view mark, std::string_view by);

}  // namespace hvd
