// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/python_program.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/text_file.h"

namespace hvd {
namespace {

constexpr std::size_t kMostModules = 64;
constexpr std::size_t kMostModuleBytes = 1UL << 20;

/// The files that a dotted path may mean, in a folder.
std::vector<std::string> files_of(const std::string& folder, const std::string& module) {
  std::string inner = module.substr(std::min(module.find_first_not_of('.'), module.size()));
  std::replace(inner.begin(), inner.end(), '.', '/');
  if (inner.empty()) return {};
  const std::string stem = folder + "/" + inner;
  return {stem + ".py", stem + "/__init__.py"};
}

/// Reads the modules that `script` names and that lie in `folder`, and those that these name.
void add_modules(const std::string& folder, const PythonScript& script, std::set<std::string>& seen,
                 std::vector<PythonScript>& modules) {
  for (const std::string& module : script.modules) {
    for (const std::string& path : files_of(folder, module)) {
      std::error_code failure;
      if (modules.size() >= kMostModules || !seen.insert(path).second) continue;
      if (!std::filesystem::is_regular_file(path, failure)) continue;
      const auto text = read_file(path, kMostModuleBytes);
      if (!text.is_ok()) continue;
      modules.push_back(parse_python(text.value()));
      const PythonScript found = modules.back();
      add_modules(std::filesystem::path(path).parent_path(), found, seen, modules);
      add_modules(folder, found, seen, modules);
    }
  }
}

}  // namespace

bool is_python(std::string_view path, std::string_view text) {
  const std::string_view first = text.substr(0, text.find('\n'));
  if (first.starts_with("#!")) return first.find("python") != std::string_view::npos;
  return path.ends_with(".py") && text.find("\n#SBATCH") == std::string_view::npos &&
         !text.starts_with("#SBATCH");
}

PythonProgram read_python_program(const std::string& path, std::string_view text) {
  PythonProgram program{.script = parse_python(text)};
  std::string folder = std::filesystem::path(path).parent_path();
  if (folder.empty()) folder = ".";
  std::set<std::string> seen{path};
  add_modules(folder, program.script, seen, program.modules);
  return program;
}

}  // namespace hvd
