// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/options/app.h"
#include "launcher/options/run_options.h"

namespace hvd {

/// Text of the flags of add_launch_flags() that CLI11 cannot put into RunOptions itself.
struct LaunchFlags {
  std::vector<std::string> variables;
  std::string bind;
  bool smt = false;
  bool no_smt = false;
};

/// The options of every command that starts ranks: how many, where, and with which environment.
/// Both outlive the parsing.
void add_launch_flags(CLI::App& app, RunOptions& options, LaunchFlags& raw);

/// After the parsing: what `raw` says. kInvalidArgument: it makes no sense.
Status read_launch_flags(const LaunchFlags& raw, RunOptions& options);

}  // namespace hvd
