// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/growing_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/unique_fd.h"

namespace hvd {
std::string GrowingFile::read_new(std::size_t most) {
  // Opened anew each time: a network file system then shows what others wrote.
  const UniqueFd file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat found {};
  if (!file.is_open() || ::fstat(file.get(), &found) != 0) return "";
  if (found.st_size < offset_) offset_ = 0;
  std::string text(most, '\0');
  std::size_t size = 0;
  while (size < most) {
    const ssize_t count = ::pread(file.get(), &text[size], most - size, offset_);
    if (count <= 0) break;
    size += static_cast<std::size_t>(count);
    offset_ += count;
  }
  text.resize(size);
  return text;
}

}  // namespace hvd
