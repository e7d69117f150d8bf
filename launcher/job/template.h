// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "launcher/job/header.h"

namespace hvd {

/// `text` as one word of a POSIX shell: as it is where nothing in it is special, else quoted.
std::string shell_word(std::string_view text);

/// The header, or the whole script where the model has a command, as sbatch takes it.
Result<std::string> render_header(const HeaderModel& model);

}  // namespace hvd
