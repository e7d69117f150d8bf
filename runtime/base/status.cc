// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"

#include <system_error>

namespace hvd {

std::string_view code_name(Code code) {
  switch (code) {
    case Code::kOk:
      return "ok";
    case Code::kInvalidArgument:
      return "invalid argument";
    case Code::kMismatch:
      return "mismatch";
    case Code::kUnsupported:
      return "unsupported";
    case Code::kTimeout:
      return "timeout";
    case Code::kPeerLost:
      return "peer lost";
    case Code::kSystem:
      return "system error";
    case Code::kAborted:
      return "aborted";
    case Code::kInternal:
      return "internal error";
  }
  return "unknown";
}

Status Status::system(std::string_view what, int error_number) {
  return {Code::kSystem, format_text("{}: {} (errno {})", what,
                                     std::generic_category().message(error_number), error_number)};
}

Status Status::with_context(std::string_view context) const {
  if (is_ok()) return *this;
  return {code_, format_text("{}: {}", context, message_)};
}

}  // namespace hvd
