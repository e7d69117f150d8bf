// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/package_hint.h"

#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "base/format.h"
#include "launcher/run/program_path.h"

namespace hvd {
namespace {

namespace fs = std::filesystem;

/// The package that Python did not find.
std::string_view missing_package(const std::deque<std::string>& lines) {
  for (const std::string& line : lines) {
    for (const std::string_view name : {"hvd", "horovod"}) {
      if (line.find(format_text("No module named '{}'", name)) != std::string::npos) return name;
    }
  }
  return {};
}

/// The folders that may hold the package: of a wheel, of an installation by Meson, of a build tree.
std::vector<fs::path> package_folders(const fs::path& self, std::string_view name) {
  const bool is_hvd = name == "hvd";
  std::vector<fs::path> folders;
  // .../site-packages/hvd/bin/hvdrun
  folders.push_back(self.parent_path().parent_path().parent_path());
  for (const char* library : {"lib", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu"}) {
    folders.push_back(self.parent_path().parent_path() / library / "hvd" /
                      (is_hvd ? "python" : "horovod"));
  }
  // .../build/launcher/hvdrun
  folders.push_back(self.parent_path().parent_path().parent_path() / "runtime" /
                    (is_hvd ? "python" : "horovod"));
  return folders;
}

/// The Python of the environment in whose lib/python3.X/site-packages that folder is.
std::optional<std::string> python_of(const fs::path& folder, const IsFile& is_file) {
  const std::string name = folder.filename().string();
  if (name != "site-packages" && name != "dist-packages") return std::nullopt;
  const std::string python =
      (folder.parent_path().parent_path().parent_path() / "bin" / "python3").string();
  return is_file(python) ? std::optional(python) : std::nullopt;
}

}  // namespace

std::string package_hint(const std::deque<std::string>& lines, const std::string& program,
                         const std::string& self, const IsFile& is_file) {
  const std::string_view name = missing_package(lines);
  if (name.empty()) return "";
  const std::string lacks = format_text("the Python of this rank ({}) has no {}", program, name);
  for (const fs::path& folder : package_folders(self, name)) {
    if (!is_file((folder / name / "__init__.py").string())) continue;
    const auto python = python_of(folder, is_file);
    if (python && *python != program) {
      return format_text("{}: that of this hvdrun does; type {} in its place", lacks, *python);
    }
    return format_text("{}: that of this hvdrun is in {}: put that folder on PYTHONPATH", lacks,
                       folder.string());
  }
  if (name == "hvd") return lacks + ": install hvdrun there";
  return lacks + ": install hvdrun-horovod there, or write `import hvd.torch as hvd`";
}

std::string package_hint(const std::deque<std::string>& lines, const std::string& program) {
  return package_hint(lines, program, path_of_self(), [](const std::string& path) {
    std::error_code none;
    return fs::is_regular_file(path, none);
  });
}

}  // namespace hvd
