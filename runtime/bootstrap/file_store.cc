// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/file_store.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "base/unique_fd.h"
#include "base/write_all.h"
#include "transport/job_key.h"

namespace hvd {
namespace {

constexpr std::size_t kMaxValueBytes = std::size_t{1} << 20;

}  // namespace

Status write_private_file(const std::string& path, std::string_view text) {
  const std::string temporary = format_text("{}.{}", path, random_hex(8));
  UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                     S_IRUSR | S_IWUSR));
  if (!fd.is_open()) return Status::system(format_text("cannot create {}", temporary), errno);
  Status written;
  if (const int failed = write_all(fd.get(), text); failed != 0) {
    written = Status::system("write", failed);
  }
  if (written.is_ok() && ::rename(temporary.c_str(), path.c_str()) != 0) {
    written = Status::system("rename", errno);
  }
  if (!written.is_ok()) ::unlink(temporary.c_str());
  return written.with_context(format_text("cannot write {}", path));
}

Result<std::string> read_private_file(const std::string& path, std::size_t limit) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.is_open() && (errno == ENOENT || errno == ESTALE)) {
    return error(Code::kTimeout, "{} does not exist", path);
  }
  if (!fd.is_open()) return Status::system(format_text("cannot open {}", path), errno);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return Status::system("fstat", errno);
  if (!S_ISREG(status.st_mode) || status.st_uid != ::geteuid() || (status.st_mode & 077) != 0) {
    return error(Code::kInvalidArgument,
                 "{} is not a file of this user closed to others; remove it", path);
  }
  std::string text;
  text.resize(limit + 1);
  std::size_t size = 0;
  while (size < text.size()) {
    const auto got = ::read(fd.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Status::system(format_text("cannot read {}", path), errno);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size > limit) return error(Code::kInvalidArgument, "{} is over-long; remove it", path);
  text.resize(size);
  return text;
}

void back_off(int& step_ms, Deadline deadline) {
  const auto next = Deadline::after(std::chrono::milliseconds(step_ms));
  ::poll(nullptr, 0, deadline.earlier(next).poll_timeout_ms());
  step_ms = std::min(step_ms * 2, 50);
}

std::string FileStore::path_of(std::string_view key) const {
  std::string name;
  for (const char c : key) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_';
    if (plain) {
      name += c;
    } else {
      constexpr std::string_view kDigits = "0123456789abcdef";
      const auto byte = static_cast<unsigned char>(c);
      name += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return format_text("{}/{}", folder_, name);
}

Status FileStore::set(std::string_view key, std::string_view value, Deadline /*deadline*/) {
  return write_private_file(path_of(key), value);
}

Result<std::string> FileStore::wait(std::string_view key, Deadline deadline) {
  const std::string path = path_of(key);
  int step_ms = 1;
  for (;;) {
    auto text = read_private_file(path, kMaxValueBytes);
    if (text.is_ok() || text.status().code() != Code::kTimeout) return text;
    if (deadline.has_passed()) {
      return error(Code::kTimeout, "timed out waiting for the key '{}' ({})", key, path);
    }
    back_off(step_ms, deadline);
  }
}

}  // namespace hvd
