// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>

#include "base/environment.h"

namespace hvd {

/// Columns of a line of text for the file `fd`: COLUMNS, else those of the terminal. Absent: it is
/// no terminal, or does not say.
std::optional<std::size_t> line_width(int fd, const Environment& environment);

}  // namespace hvd
