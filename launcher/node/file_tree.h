// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hvd {

/// The machine's files as they stand below a root: "" for this machine, a folder for a recorded or
/// written one. What cannot be read is empty: a file that is missing in sysfs means "not known".
/// Immutable after construction.
class FileTree {
 public:
  explicit FileTree(std::string root) : root_(std::move(root)) {}

  /// The file's text without white space at its end; of a longer one the first 64 KiB.
  std::string read(std::string_view path) const;

  /// The number that the file holds; `otherwise` where it holds none.
  long long read_number(std::string_view path, long long otherwise) const;

  /// Names of the folder's entries, "." and ".." aside, in the order of their numbers ("ib2" before
  /// "ib10").
  std::vector<std::string> list(std::string_view path) const;

  /// Where the path leads when every link is followed, below the root; empty: nowhere.
  std::string resolve(std::string_view path) const;

  /// The last name of what the path leads to: "mlx5_core" of ".../device/driver".
  std::string target_name(std::string_view path) const;

 private:
  std::string root_;
};

/// True where `a` comes before `b` and digits count as numbers.
bool natural_less(std::string_view a, std::string_view b);

}  // namespace hvd
