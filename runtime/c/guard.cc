// SPDX-License-Identifier: Apache-2.0
#include "c/guard.h"

#include "base/result.h"

namespace hvd {

namespace {
thread_local std::string t_last_error;
}  // namespace

const std::string& last_error() { return t_last_error; }

void set_last_error(const Status& status) noexcept {
  try {
    t_last_error = status.message();
  } catch (...) {
    t_last_error.clear();  // out of memory: the code alone must do
  }
}

Status null_argument(const char* function, const char* argument) {
  return error(Code::kInvalidArgument, "{}: {} is null", function, argument);
}

}  // namespace hvd
