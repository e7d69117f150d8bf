// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/launch_directory.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <string_view>

#include "base/unique_fd.h"
#include "base/write_all.h"

namespace hvd {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kScriptMode = 0700;  ///< Arguments of the user's program may be secrets.
constexpr mode_t kPrivate = 0600;
constexpr mode_t kUsual = 0644;

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  std::array<char, 16> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%d", &parts);
  return {text.data(), length};
}

Status write_file(const fs::path& path, std::string_view text, mode_t mode) {
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!file.is_open()) return Status::system("writing " + path.string(), errno);
  const int failed = write_all(file.get(), text);
  return failed == 0 ? Status::ok() : Status::system("writing " + path.string(), failed);
}

}  // namespace

Result<std::string> choose_launch_directory(const std::string& typed, const std::string& name,
                                            bool only_look) {
  std::error_code failure;
  const fs::path here = fs::current_path(failure);
  if (failure) return Status::system("the current folder", failure.value());
  if (!typed.empty()) {
    const fs::path folder = (here / typed).lexically_normal();
    if (!fs::exists(folder / "job.sh", failure)) {
      if (!only_look) fs::create_directories(folder, failure);
      if (failure) return Status::system("making " + folder.string(), failure.value());
      return folder.string();
    }
    return error(Code::kInvalidArgument,
                 "--launch-dir '{}' holds a job already: type another folder, or leave it out",
                 typed);
  }
  std::string stem = format_text("{}-{}", name.empty() ? "job" : name, today());
  std::replace(stem.begin(), stem.end(), '/', '_');  // a job name may hold it
  const fs::path parent = here / "hvdrun-jobs";
  if (!only_look) fs::create_directories(parent, failure);
  for (int n = 1; !failure; ++n) {
    const fs::path folder = parent / format_text("{}-{}", stem, n);
    // Made in the same breath as found free: two submissions at once get two folders.
    const bool free =
        only_look ? !fs::exists(folder, failure) : fs::create_directory(folder, failure);
    if (free) return folder.string();
  }
  return Status::system("making a launch directory in " + parent.string(), failure.value());
}

Status write_launch_directory(const std::string& folder, const LaunchFiles& files) {
  const fs::path place(folder);
  HVD_TRY(write_file(place / "job.sh", files.script, kScriptMode));
  HVD_TRY(write_file(place / "environment", files.environment, kPrivate));
  HVD_TRY(write_file(place / "command.sh", files.command, kScriptMode));
  return write_file(place / "site.txt", files.site, kUsual);
}

}  // namespace hvd
