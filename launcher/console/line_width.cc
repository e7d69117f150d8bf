// SPDX-License-Identifier: Apache-2.0
#include "launcher/console/line_width.h"

#include <sys/ioctl.h>

namespace hvd {
namespace {

constexpr std::int64_t kMostColumns = 10'000;

}  // namespace

std::optional<std::size_t> line_width(int fd, const Environment& environment) {
  const auto typed = environment.get_int("COLUMNS", 1, kMostColumns);
  if (typed.is_ok() && typed.value()) return static_cast<std::size_t>(*typed.value());
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return std::nullopt;
  return size.ws_col;
}

}  // namespace hvd
