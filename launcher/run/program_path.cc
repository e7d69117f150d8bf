// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/program_path.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/format.h"
#include "launcher/console/exit_code.h"
#include "launcher/options/command_table.h"
#include "launcher/options/nearest.h"

namespace hvd {
namespace {

bool is_directory(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode);
}

bool is_program(const std::string& path) {
  return ::access(path.c_str(), X_OK) == 0 && !is_directory(path);
}

ProgramProblem not_executable(const std::string& path) {
  if (is_directory(path)) {
    return {kExitNotExecutable, format_text("{} is a directory, not a program", path)};
  }
  const bool is_python = path.ends_with(".py");
  return {kExitNotExecutable,
          format_text("{} is not executable: {}", path,
                      is_python ? "type `hvdrun python3 " + path + "`" : "try chmod +x " + path)};
}

/// `hvdrun heaader ...` is taken for a program of that name.
std::string mistyped_command(const std::string& program) {
  std::vector<std::string> commands;
  for (const CommandEntry& entry : command_table()) {
    if (!entry.group.empty()) commands.emplace_back(entry.name);
  }
  return nearest(program, commands);
}

}  // namespace

std::variant<std::string, ProgramProblem> find_program(const std::string& program,
                                                       const Environment& environment) {
  if (program.find('/') != std::string::npos) {
    if (is_program(program)) return program;
    if (::access(program.c_str(), F_OK) == 0) return not_executable(program);
    return ProgramProblem{kExitNotFound, format_text("{}: no such program", program)};
  }
  const std::string path = environment.get("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  std::string unusable;
  for (std::size_t start = 0; start <= path.size();) {
    const std::size_t colon = std::min(path.find(':', start), path.size());
    const std::string folder = path.substr(start, colon - start);
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + program;
    start = colon + 1;
    if (is_program(candidate)) return candidate;
    if (unusable.empty() && ::access(candidate.c_str(), F_OK) == 0 && !is_directory(candidate)) {
      unusable = candidate;
    }
  }
  if (!unusable.empty()) return not_executable(unusable);
  std::string remedy = "check its name and PATH";
  if (is_program("./" + program)) remedy = "it is in this folder: type ./" + program;
  if (program.ends_with(".py")) remedy = "type `hvdrun python3 " + program + "`";
  if (const std::string command = mistyped_command(program); !command.empty()) {
    remedy = "did you mean hvdrun " + command + "?";
  }
  return ProgramProblem{kExitNotFound,
                        format_text("{}: no such program in PATH\nhint: {}", program, remedy)};
}

std::string_view program_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

std::string path_of_self() {
  std::error_code failure;
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", failure);
  return failure ? "hvdrun" : own.string();
}

}  // namespace hvd
