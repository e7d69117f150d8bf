// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>

#include "base/unique_fd.h"

namespace hvd {

/// Notes which files below a folder are read by processes of this machine (inotify). Not
/// thread-safe.
class ReadWatch {
 public:
  /// Watches the folders that are there now.
  explicit ReadWatch(const std::string& folder);

  /// False: the kernel does not tell (no inotify, too many watches).
  bool works() const { return works_; }
  /// The paths below the folder that were read until now.
  std::set<std::string> take();

 private:
  void watch(const std::string& path, const std::string& name);

  UniqueFd events_;
  bool works_ = false;
  std::map<int, std::string> folders_;  ///< By watch: "" or "step-7/".
};

}  // namespace hvd
