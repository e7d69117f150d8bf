// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvd {

/// A file as it was at a look.
struct FileSeen {
  std::int64_t size = 0;
  std::int64_t changed_ns = 0;  ///< Its mtime, since the epoch.
  std::uint64_t inode = 0;

  bool operator==(const FileSeen&) const = default;
};

/// The files below a folder, by path below it.
struct FolderLook {
  std::map<std::string, FileSeen> files;
  bool is_cut = false;  ///< There are more than were looked at.
};

/// Looks at all files below the folder; one that is not there has none. `skips_hidden`: without
/// folders whose names begin with a dot, which belong to tools (.git, .venv).
FolderLook look_at_folder(const std::string& folder, bool skips_hidden);

/// The paths of files that were written between two looks, the newest last.
std::vector<std::string> written_between(const FolderLook& before, const FolderLook& after);

/// The newest file; empty: there is none.
std::string newest_file(const FolderLook& look);

/// True for what is written before it gets its own name, or half: "x.tmp", ".host-17.x", an empty
/// file.
bool looks_unfinished(std::string_view path, const FileSeen& file);

/// "step-#/rank-#.pt" and {100, 0}, of "step-100/rank-0.pt": files of one kind differ by numbers.
struct NumberedName {
  std::string name;
  std::vector<std::uint64_t> numbers;
};
NumberedName numbered_name(std::string_view path);

/// The path of the kind `name` that has the highest numbers; nothing: there is none.
std::optional<NumberedName> highest_numbered(const std::vector<std::string>& paths,
                                             std::string_view name);

}  // namespace hvd
