// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace hvd {

/// A file that somebody else writes, perhaps on another machine: what is new in it since last time.
/// Polled, since inotify sees no writes of other nodes.
class GrowingFile {
 public:
  explicit GrowingFile(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  /// What was added, `most` bytes of it at most; empty: nothing, or no file yet. One that got
  /// shorter is read from its start.
  std::string read_new(std::size_t most);
  /// What comes next is what begins there.
  void skip_to(std::int64_t offset) { offset_ = offset; }

 private:
  std::string path_;
  std::int64_t offset_ = 0;
};

}  // namespace hvd
