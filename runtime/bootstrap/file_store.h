// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "bootstrap/store.h"

namespace hvd {

/// A store in a folder that all ranks see: one file per key, written under another name and
/// renamed, so that a reader sees all of it or nothing. Thread-safe.
class FileStore : public Store {
 public:
  /// The folder must exist.
  explicit FileStore(std::string folder) : folder_(std::move(folder)) {}

  std::string_view name() const override { return "file"; }
  Status set(std::string_view key, std::string_view value, Deadline deadline) override;
  Result<std::string> wait(std::string_view key, Deadline deadline) override;

 private:
  std::string path_of(std::string_view key) const;
  std::string folder_;
};

/// Writes `text` to `path` as one atomic step, readable by the user alone (mode 0600).
Status write_private_file(const std::string& path, std::string_view text);
/// The text of a file of at most `limit` bytes that belongs to this user and is closed to others.
/// kTimeout: there is none (yet). kInvalidArgument: it belongs to somebody else.
Result<std::string> read_private_file(const std::string& path, std::size_t limit);
/// Lets `step` milliseconds pass, or less when the deadline comes first; then doubles `step`, up to
/// 50: for things that can only be polled (network file systems, ports not open yet).
void back_off(int& step_ms, Deadline deadline);

}  // namespace hvd
