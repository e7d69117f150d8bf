// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/environment.h"
#include "base/result.h"

namespace hvd {

/// What a command wrote and how it ended.
struct Captured {
  int wait_status = 0;
  std::string output;
  std::string errors;

  bool succeeded() const { return wait_status == 0; }
};

/// Runs a command (found in PATH of `environment`) to its end, with nothing to read. Past the
/// deadline it is killed: kTimeout. Not found: kUnsupported with the sentence of find_program.
Result<Captured> capture(const std::vector<std::string>& words, const Environment& environment,
                         Deadline deadline);

}  // namespace hvd
