// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <functional>
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
  /// The last line that it wrote about its failure, or how it ended.
  std::string last_words() const;
};

/// Runs a command (found in PATH of `environment`) to its end, with nothing to read. What it leaves
/// behind is not waited for, though it holds the pipes. Past the deadline it is killed: kTimeout;
/// likewise where the descriptor `interrupt` becomes readable. Not found: kUnsupported with the
/// sentence of find_program.
Result<Captured> capture(const std::vector<std::string>& words, const Environment& environment,
                         Deadline deadline, int interrupt = -1);

/// As capture(), for a command of the user's: whatever it starts and leaves behind is ended with
/// it, also where this process is killed, and a signal of the terminal does not reach it.
Result<Captured> capture_contained(const std::vector<std::string>& words,
                                   const Environment& environment, Deadline deadline,
                                   int interrupt = -1);

/// The same as capture() for a command that succeeds: what it wrote. kSystem with its last words
/// where it fails.
Result<std::string> capture_output(const std::vector<std::string>& words,
                                   const Environment& environment, Deadline deadline,
                                   int interrupt = -1);
/// What a command wrote that has succeeded; kSystem with its last words.
Result<std::string> output_of(Captured answer, const std::string& name);

/// As capture(), for a function, in a child process that ends with what it returns; `name` is what
/// it is called in messages. It writes its output to the stream that it is given.
Result<Captured> capture_call(const std::string& name,
                              const std::function<int(std::FILE*)>& function, Deadline deadline,
                              int interrupt = -1);

}  // namespace hvd
