// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace hvd {

/// Writes all; false when the reader is gone.
bool write_all(int fd, std::string_view bytes);

/// `--output-dir`: a file for each stream of each rank, "rank-3.out". Without a folder it takes
/// nothing. A file that cannot be written any more is given up. Not thread-safe.
class OutputFiles {
 public:
  explicit OutputFiles(std::string folder) : folder_(std::move(folder)) {}

  /// Makes the folder.
  Status make_folder() const;
  bool is_wanted() const { return !folder_.empty(); }
  /// Opens the file of this rank and stream, empty. `suffix`: "out" or "err".
  Status open(int rank, std::string_view suffix);
  /// Adds to it; opens it where the rank was not known before.
  void add(int rank, std::string_view suffix, std::string_view bytes);

 private:
  std::string folder_;
  std::map<std::string, UniqueFd> files_;  ///< By path; closed: given up.
};

}  // namespace hvd
