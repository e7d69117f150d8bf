// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/options/command_description.h"

namespace hvd {

/// The man page of a command in the language of scdoc(5). The line "@PROSE@" is where the build
/// puts the sections written by hand, from docs/man/.
std::string man_page(const CommandDescription& command,
                     const std::vector<CommandDescription>& commands);

/// docs/reference/hvdrun.md
std::string reference_page(const std::vector<CommandDescription>& commands);

}  // namespace hvd
