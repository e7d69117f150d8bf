// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/format.h"

namespace hvd {

/// What the caller can do about a failure. The numbers are those of `hvd_status` in hvd.h.
enum class Code : int {
  kOk = 0,
  kInvalidArgument = 1,  ///< Correct the call.
  kMismatch = 2,         ///< The ranks disagree: correct the program.
  kUnsupported = 3,      ///< Choose another operation, type or backend.
  kTimeout = 4,          ///< A deadline passed.
  kPeerLost = 5,         ///< A rank, node or link died: restart, or re-form the job.
  kSystem = 6,           ///< The operating system refused: see errno in the text.
  kAborted = 7,          ///< Shut down, or never initialised.
  kInternal = 8,         ///< Our defect.
};

std::string_view code_name(Code code);

/// The outcome of an operation without a value: a code, and for failures a sentence that says
/// what failed, on which rank, with which values, and what to try. Immutable after construction.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status ok() { return {}; }
  /// kSystem with the text of `error_number` (an errno value) after `what`.
  static Status system(std::string_view what, int error_number);

  bool is_ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

  /// The same failure with `context` and ": " before its message.
  Status with_context(std::string_view context) const;

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

template <typename... Args>
Status error(Code code, fmt::format_string<Args...> text, Args&&... args) {
  return {code, format_erased(text, fmt::make_format_args(args...))};
}

}  // namespace hvd

/// Returns from the enclosing function when `expression`, a Status, is a failure.
#define HVD_TRY(expression)                                               \
  do {                                                                    \
    if (::hvd::Status hvd_status_ = (expression); !hvd_status_.is_ok()) { \
      return hvd_status_;                                                 \
    }                                                                     \
  } while (false)
