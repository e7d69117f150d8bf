// SPDX-License-Identifier: Apache-2.0
#include "base/text_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/unique_fd.h"

namespace hvd {

std::optional<std::string> read_text_file(const std::string& path) {
  constexpr std::size_t kLargest = std::size_t{64} << 20U;
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  std::string part(std::size_t{1} << 16U, '\0');
  while (file.get() >= 0 && text.size() <= kLargest) {
    const ssize_t count = ::read(file.get(), part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return std::nullopt;  // a folder opens as a file does
    if (count == 0) break;
    text.append(part, 0, static_cast<std::size_t>(count));
  }
  if (text.empty() || text.size() > kLargest) return std::nullopt;
  return text;
}

}  // namespace hvd
