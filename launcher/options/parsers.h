// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launcher/options/command_line.h"

/// One parser per command; `arguments` are what follows the command's name.
namespace hvd {

Result<CommandLine> parse_run(const std::vector<std::string>& arguments, bool dry_run);
/// `name`: header, script or submit.
Result<CommandLine> parse_job(std::string_view name, const std::vector<std::string>& arguments);
Result<CommandLine> parse_env(const std::vector<std::string>& arguments);
Result<CommandLine> parse_sites(const std::vector<std::string>& arguments);
Result<CommandLine> parse_check(const std::vector<std::string>& arguments);
Result<CommandLine> parse_lint(const std::vector<std::string>& arguments);
Result<CommandLine> parse_test_preempt(const std::vector<std::string>& arguments);
Result<CommandLine> parse_attach(const std::vector<std::string>& arguments);
Result<CommandLine> parse_topo(const std::vector<std::string>& arguments);
Result<CommandLine> parse_help(const std::vector<std::string>& arguments);
Result<CommandLine> parse_completion(const std::vector<std::string>& arguments);
Result<CommandLine> parse_describe(const std::vector<std::string>& arguments);

}  // namespace hvd
