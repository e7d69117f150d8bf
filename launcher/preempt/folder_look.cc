// SPDX-License-Identifier: Apache-2.0
#include "launcher/preempt/folder_look.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <system_error>

namespace hvd {
namespace {

namespace fs = std::filesystem;

/// A folder of data has millions; nobody waits for a look at them.
constexpr std::size_t kMostEntries = 50'000;
constexpr std::int64_t kNsInSecond = 1'000'000'000;
constexpr std::array<std::string_view, 7> kUnfinishedEndings{
    ".tmp", ".temp", ".part", ".partial", ".incomplete", ".writing", "~"};

bool is_decimal(char c) { return c >= '0' && c <= '9'; }

std::string_view base_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

}  // namespace

FolderLook look_at_folder(const std::string& folder, bool skips_hidden) {
  FolderLook look;
  std::error_code failure;
  fs::recursive_directory_iterator entries(folder, fs::directory_options::skip_permission_denied,
                                           failure);
  std::size_t count = 0;
  for (; !failure && entries != fs::recursive_directory_iterator(); entries.increment(failure)) {
    if (++count > kMostEntries) {
      look.is_cut = true;
      break;
    }
    const std::string path = entries->path().string();
    struct stat found {};
    if (::lstat(path.c_str(), &found) != 0) continue;
    if (S_ISDIR(found.st_mode) && skips_hidden && base_name(path).starts_with('.')) {
      entries.disable_recursion_pending();
    }
    if (!S_ISREG(found.st_mode)) continue;
    look.files[entries->path().lexically_relative(folder).string()] = {
        .size = found.st_size,
        .changed_ns = found.st_mtim.tv_sec * kNsInSecond + found.st_mtim.tv_nsec,
        .inode = found.st_ino};
  }
  return look;
}

std::vector<std::string> written_between(const FolderLook& before, const FolderLook& after) {
  std::vector<std::string> written;
  for (const auto& [path, file] : after.files) {
    const auto earlier = before.files.find(path);
    if (earlier == before.files.end() || earlier->second != file) written.push_back(path);
  }
  std::stable_sort(written.begin(), written.end(), [&](const auto& one, const auto& other) {
    return after.files.at(one).changed_ns < after.files.at(other).changed_ns;
  });
  return written;
}

std::string newest_file(const FolderLook& look) {
  const std::vector<std::string> all = written_between({}, look);
  return all.empty() ? "" : all.back();
}

bool looks_unfinished(std::string_view path, const FileSeen& file) {
  const std::string_view name = base_name(path);
  if (file.size == 0 || name.starts_with('.') || name.starts_with("tmp")) return true;
  if (name.find(".tmp.") != std::string_view::npos) return true;
  return std::any_of(kUnfinishedEndings.begin(), kUnfinishedEndings.end(),
                     [&](std::string_view ending) { return name.ends_with(ending); });
}

NumberedName numbered_name(std::string_view path) {
  NumberedName kind;
  for (std::size_t at = 0; at < path.size();) {
    if (!is_decimal(path[at])) {
      kind.name += path[at++];
      continue;
    }
    std::uint64_t number = UINT64_MAX;  // What does not fit is the largest.
    const std::size_t begin = at;
    while (at < path.size() && is_decimal(path[at])) ++at;
    (void)std::from_chars(path.data() + begin, path.data() + at, number);
    kind.name += '#';
    kind.numbers.push_back(number);
  }
  return kind;
}

std::optional<NumberedName> highest_numbered(const std::vector<std::string>& paths,
                                             std::string_view name) {
  std::optional<NumberedName> highest;
  for (const std::string& path : paths) {
    NumberedName kind = numbered_name(path);
    if (kind.name != name || kind.numbers.empty()) continue;
    if (!highest || kind.numbers > highest->numbers) highest = std::move(kind);
  }
  return highest;
}

}  // namespace hvd
