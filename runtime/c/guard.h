// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "base/status.h"
#include "hvd/hvd.h"

namespace hvd {

/// The text of hvd_last_error() on this thread.
const std::string& last_error();
void set_last_error(const Status& status) noexcept;

/// A pointer that must not be null is.
Status null_argument(const char* function, const char* argument);

/// Runs the body of a C function: its Status becomes the code returned and the text of
/// hvd_last_error(). The one place where a foreign exception (bad_alloc, a caller's callback) ends.
template <typename Body>
hvd_status guarded(Body&& body) noexcept {
  Status status;
  try {
    status = std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
    status = Status(Code::kSystem, "out of memory");
  } catch (const std::exception& caught) {
    status = Status(Code::kInternal, caught.what());
  } catch (...) {
    status = Status(Code::kInternal, "unknown exception");
  }
  if (!status.is_ok()) set_last_error(status);
  return static_cast<hvd_status>(status.code());
}

}  // namespace hvd
