// SPDX-License-Identifier: Apache-2.0
// The one file that compiles fmt's implementation: header-only, so that neither libhvd nor a
// static hvdrun depends on a libfmt at run time, and every other file includes only fmt/core.h.
#define FMT_HEADER_ONLY
#include <fmt/format.h>

namespace hvd {

std::string format_erased(fmt::string_view format, fmt::format_args args) {
  return fmt::vformat(format, args);
}

}  // namespace hvd
