// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/growing_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vector>

#include "base/unique_fd.h"

namespace hvd {
namespace {

constexpr std::size_t kFileBlock = std::size_t{256} * 1024;

}  // namespace

std::string GrowingFile::read_new() {
  // Opened anew each time: a network file system then shows what others wrote.
  const UniqueFd file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat found {};
  if (!file.is_open() || ::fstat(file.get(), &found) != 0) return "";
  if (found.st_size < offset_) offset_ = 0;
  std::string text;
  std::vector<char> buffer(kFileBlock);
  while (true) {
    const ssize_t count = ::pread(file.get(), buffer.data(), buffer.size(), offset_);
    if (count <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(count));
    offset_ += count;
  }
}

}  // namespace hvd
