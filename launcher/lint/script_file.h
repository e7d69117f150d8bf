// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/result.h"

namespace hvd {

/// The whole text of a script. kInvalidArgument: what cannot be read, and why.
Result<std::string> read_script(const std::string& path);

/// Writes `text` in the place of the file at `path`, whole or not at all; its rights stay.
Status replace_script(const std::string& path, const std::string& text);

}  // namespace hvd
