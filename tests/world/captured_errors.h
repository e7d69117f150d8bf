// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/unique_fd.h"
#include "world/world.h"

namespace hvd {

/// Standard error in a file, for a scope.
class CapturedErrors {
 public:
  CapturedErrors()
      : path_(testing::TempDir() + "/hvd_errors." + std::to_string(::getpid())), before_(::dup(2)) {
    const UniqueFd file(::open(path_.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600));
    ::dup2(file.get(), 2);
  }
  CapturedErrors(const CapturedErrors&) = delete;
  CapturedErrors& operator=(const CapturedErrors&) = delete;
  ~CapturedErrors() {
    ::dup2(before_.get(), 2);
    ::unlink(path_.c_str());
  }
  std::string text() const {
    std::stringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }
  /// False: it did not come in time.
  bool wait_for(std::string_view part) const {
    for (const Deadline deadline = soon(); !deadline.has_passed(); sched_yield()) {
      if (text().find(part) != std::string::npos) return true;
    }
    return false;
  }

 private:
  std::string path_;
  UniqueFd before_;
};

}  // namespace hvd
