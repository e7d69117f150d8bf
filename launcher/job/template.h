// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "launcher/job/job_plan.h"

namespace hvd {

/// `text` as one word of a POSIX shell: as it is where nothing in it is special, else quoted.
std::string shell_word(std::string_view text);

/// The header alone, as sbatch takes it.
Result<std::string> render_header(const JobPlan& plan);

/// The whole script.
Result<std::string> render_script(const JobPlan& plan);

}  // namespace hvd
