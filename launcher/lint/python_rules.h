// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "launcher/lint/python_guards.h"
#include "launcher/lint/python_program.h"
#include "launcher/lint/python_reach.h"
#include "launcher/lint/python_values.h"

namespace hvd {

/// What rules on a Python program are told. Borrowed for the call.
struct PythonFacts {
  const PythonProgram& program;
  const PythonScript& script;             ///< The program's own file.
  const std::vector<BlockPlace>& places;  ///< Of that file, as is what follows.
  const std::vector<PythonBinding>& bindings;
  const PythonGuards& guards;
  const PythonReach& reach;
  const PythonValues& values;
  const PythonCall* wrapper;  ///< Its first DistributedOptimizer or its like; null: none.
};

/// Whether a call is libhvd's or Horovod's, or of an object of theirs that is named so.
bool is_call_of_hvd(const PythonCall& call, std::string_view name);

/// Steps that were left out: init(), the broadcast, the larger learning rate.
std::vector<Finding> check_python_steps(const PythonFacts& facts);

/// Files that every rank writes.
std::vector<Finding> check_python_saves(const PythonFacts& facts);

/// Data that is not split.
std::vector<Finding> check_python_shares(const PythonFacts& facts);

/// GPUs by the wrong rank.
std::vector<Finding> check_python_gpus(const PythonFacts& facts);

}  // namespace hvd
