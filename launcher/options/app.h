// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launcher/options/command_line.h"

/// What the parsers of the commands share. CLI11 is slow to compile: only they include this.
///
/// Every option has a type_name (see OptionDescription::value) and a group ("Placement"): help,
/// completion, man pages and the reference are made from them.
namespace hvd {

/// kInvalidArgument: what is wrong, and which --help to read; an empty `command` is hvdrun itself.
Status usage(std::string_view what, std::string_view command);

/// An empty parser; with `takes_program` everything from the first word on is the program's.
std::unique_ptr<CLI::App> make_app(const std::string& description, const std::string& name,
                                   bool takes_program);

/// Turns CLI11's exceptions into a Status, `--help` into its text, and kDescribe into the
/// description of the command.
Result<std::optional<CommandLine>> parse_with(CLI::App& app, std::vector<std::string> arguments,
                                              std::string_view command);

/// The flags end where the program begins; a leading dash there is a flag we do not have.
/// Taken from `arguments` as typed: CLI11 saw "-np" respelled, also in the program's part.
Result<std::vector<std::string>> program_of(CLI::App& app,
                                            const std::vector<std::string>& arguments,
                                            std::string_view command);

}  // namespace hvd
