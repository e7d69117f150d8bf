// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "launcher/options/attach_options.h"
#include "launcher/options/check_options.h"
#include "launcher/options/command_description.h"
#include "launcher/options/describe_options.h"
#include "launcher/options/env_options.h"
#include "launcher/options/job_options.h"
#include "launcher/options/lint_options.h"
#include "launcher/options/preempt_options.h"
#include "launcher/options/run_options.h"
#include "launcher/options/topo_options.h"

namespace hvd {

/// `--help`: text for standard output, exit code 0.
struct PrintAndExit {
  std::string text;
};

/// The one word after a command that asks its parser for its options; see describe_command().
constexpr std::string_view kDescribe = "--describe";

using CommandLine =
    std::variant<RunOptions, EnvOptions, SitesOptions, JobOptions, CheckOptions, LintOptions,
                 PreemptOptions, AttachOptions, TopoOptions, VersionOptions, CompletionOptions,
                 DescribeOptions, PrintAndExit, CommandDescription>;

/// Reads the command line; never a CommandDescription. kInvalidArgument: one sentence with what is
/// wrong, and a line "hint: ..." with what to type.
Result<CommandLine> parse_command_line(const std::vector<std::string>& arguments);

}  // namespace hvd
