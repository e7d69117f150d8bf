// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/output_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace hvd {
namespace {

std::string path_of(const std::string& folder, int rank, std::string_view suffix) {
  return format_text("{}/rank-{}.{}", folder, rank, suffix);
}

}  // namespace

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

Status OutputFiles::make_folder() const {
  constexpr mode_t kMode = 0755;
  if (!is_wanted() || ::mkdir(folder_.c_str(), kMode) == 0 || errno == EEXIST) return Status::ok();
  return Status::system("--output-dir: mkdir " + folder_, errno);
}

Status OutputFiles::open(int rank, std::string_view suffix) {
  if (!is_wanted()) return Status::ok();
  const std::string path = path_of(folder_, rank, suffix);
  constexpr mode_t kMode = 0644;
  UniqueFd& file = files_[path];
  file.reset(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode));
  return file.is_open() ? Status::ok() : Status::system("--output-dir: open " + path, errno);
}

void OutputFiles::add(int rank, std::string_view suffix, std::string_view bytes) {
  if (!is_wanted()) return;
  auto file = files_.find(path_of(folder_, rank, suffix));
  if (file == files_.end()) {
    (void)open(rank, suffix);
    file = files_.find(path_of(folder_, rank, suffix));
  }
  if (file->second.is_open() && !write_all(file->second.get(), bytes)) file->second.reset();
}

}  // namespace hvd
