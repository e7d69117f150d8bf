// SPDX-License-Identifier: Apache-2.0
#include "base/text_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/deadline.h"
#include "base/format.h"
#include "base/unique_fd.h"

namespace hvd {
namespace {

Status cannot_read(const std::string& path, int error_number) {
  return Status::system(format_text("cannot read '{}'", path), error_number);
}

/// Waits until a read would not: for bytes, or for the end. A pipe that nobody has opened for
/// writing yet has neither.
Status await(int fd, const std::string& path, std::chrono::milliseconds patience) {
  const Deadline deadline = Deadline::after(patience);
  while (true) {
    pollfd wanted{.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&wanted, 1, deadline.poll_timeout_ms());
    if (ready > 0) return Status::ok();
    if (ready < 0 && errno != EINTR) return cannot_read(path, errno);
    if (deadline.has_passed()) {
      return error(Code::kTimeout,
                   "cannot read '{}': nothing was written to it for {} ms; name a file, or a pipe "
                   "that a command writes",
                   path, patience.count());
    }
  }
}

}  // namespace

Result<std::string> read_file(const std::string& path, std::size_t largest,
                              std::chrono::milliseconds patience) {
  // Without O_NONBLOCK the opening of a pipe would wait for a writer.
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) return cannot_read(path, errno);
  const bool may_wait = S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode);
  std::string text;
  std::string part(std::size_t{1} << 16U, '\0');
  while (text.size() <= largest) {
    if (may_wait) HVD_TRY(await(file.get(), path, patience));
    const ssize_t count = ::read(file.get(), part.data(), part.size());
    if (count < 0 && (errno == EINTR || (may_wait && errno == EAGAIN))) continue;
    if (count < 0) return cannot_read(path, errno);
    if (count == 0) return text;
    text.append(part, 0, static_cast<std::size_t>(count));
  }
  return error(Code::kInvalidArgument, "'{}' is larger than {} bytes", path, largest);
}

std::optional<std::string> read_text_file(const std::string& path) {
  constexpr std::size_t kLargest = std::size_t{64} << 20U;
  auto text = read_file(path, kLargest);
  if (!text.is_ok() || text.value().empty()) return std::nullopt;
  return std::move(text).value();
}

}  // namespace hvd
