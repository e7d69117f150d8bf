// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hvd {

/// What the user typed after `hvdrun completion`.
struct CompletionOptions {
  std::string shell;   ///< bash, zsh or fish.
  std::string values;  ///< --values: SITE or PARTITION; then no script is printed.
  std::string site;    ///< Of which the partitions are; empty: detected.
};

/// What was typed after `hvdrun describe`, by which the build makes man pages and reference.
struct DescribeOptions {
  std::string format;   ///< commands, options, scdoc or markdown.
  std::string command;  ///< Of options and scdoc.
};

}  // namespace hvd
