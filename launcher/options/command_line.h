// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "launcher/options/check_options.h"
#include "launcher/options/job_options.h"
#include "launcher/options/run_options.h"

namespace hvd {

/// `--help` or `--version`: text for standard output, exit code 0.
struct PrintAndExit {
  std::string text;
};

using CommandLine = std::variant<RunOptions, JobOptions, CheckOptions, PrintAndExit>;

/// Reads the command line. kInvalidArgument: one sentence with what is wrong and what to type.
Result<CommandLine> parse_command_line(const std::vector<std::string>& arguments);

}  // namespace hvd
