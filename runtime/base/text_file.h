// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace hvd {

/// The text of a file; nothing where it cannot be read, is empty, or is larger than 64 MiB.
std::optional<std::string> read_text_file(const std::string& path);

}  // namespace hvd
