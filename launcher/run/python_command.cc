// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/python_command.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "launcher/run/program_path.h"

namespace hvd {
namespace {

/// "python", "python3.11", with or without a folder.
bool is_interpreter(std::string_view word) {
  constexpr std::string_view kName = "python";
  const std::string_view name = program_name(word);
  return name.starts_with(kName) &&
         name.substr(kName.size()).find_first_not_of("0123456789.") == std::string_view::npos;
}

/// A program, or a module, that runs the Python file or module that it is given.
bool runs_another(std::string_view name) {
  constexpr std::array<std::string_view, 18> kNames{"torchrun",
                                                    "accelerate",
                                                    "deepspeed",
                                                    "hvdrun",
                                                    "horovodrun",
                                                    "coverage",
                                                    "scalene",
                                                    "viztracer",
                                                    "kernprof",
                                                    "cProfile",
                                                    "profile",
                                                    "pdb",
                                                    "trace",
                                                    "torch.distributed.run",
                                                    "torch.distributed.launch",
                                                    "torch.utils.bottleneck",
                                                    "accelerate.commands.launch",
                                                    "line_profiler"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

/// Whether "-m" names a module for one of these; srun's and mpirun's mean something else.
bool takes_module(std::string_view name) {
  return name == "torchrun" || name == "accelerate" || name.starts_with("torch.distributed.");
}

/// The target of the interpreter at `at`, by its options; absent: "-c", or nothing follows.
std::optional<PythonTarget> target_of_interpreter(const std::vector<std::string>& command,
                                                  std::size_t at) {
  for (++at; at < command.size(); ++at) {
    const std::string_view word = command[at];
    if (!word.starts_with('-')) return PythonTarget{at, false, std::string(program_name(word))};
    if (word.starts_with("--")) continue;
    const std::size_t letter = word.find_first_of("cmWX", 1);
    if (letter == std::string_view::npos) {
      if (word == "-") return std::nullopt;  // standard input
      continue;
    }
    const bool is_joined = letter + 1 < word.size();  // "-Werror", "-mpkg"
    if (word[letter] == 'c') return std::nullopt;
    if (word[letter] == 'm') {
      if (is_joined) return PythonTarget{at, true, std::string(word.substr(letter + 1))};
      if (at + 1 == command.size()) return std::nullopt;
      return PythonTarget{at + 1, true, command[at + 1]};
    }
    if (!is_joined) ++at;  // the value of -W or -X
  }
  return std::nullopt;
}

}  // namespace

std::optional<PythonTarget> python_target(const std::vector<std::string>& command) {
  bool is_module_next = false;
  for (std::size_t at = 0; at < command.size(); ++at) {
    const std::string& word = command[at];
    if (is_interpreter(word)) {
      std::optional<PythonTarget> target = target_of_interpreter(command, at);
      if (!target || (!runs_another(target->name) && !is_interpreter(target->name))) return target;
      is_module_next = is_module_next || takes_module(target->name);
      at = target->is_module ? target->at : target->at - 1;
    } else if (word.ends_with(".py")) {
      return PythonTarget{at, false, std::string(program_name(word))};
    } else if (is_module_next && (word == "-m" || word == "--module") && at + 1 < command.size()) {
      return PythonTarget{at + 1, true, command[at + 1]};
    } else {
      is_module_next = is_module_next || takes_module(program_name(word));
    }
  }
  return std::nullopt;
}

}  // namespace hvd
