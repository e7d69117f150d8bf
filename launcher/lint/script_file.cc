// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/script_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>

#include "base/text_file.h"
#include "base/unique_fd.h"
#include "base/write_all.h"

namespace hvd {
namespace {

constexpr std::size_t kMostBytes = 4UL << 20;  // sbatch itself takes 4 MiB by default

/// Where a symbolic link leads: the file is replaced, not the link.
std::string target_of(const std::string& path) {
  char* target = ::realpath(path.c_str(), nullptr);
  if (target == nullptr) return path;
  std::string text(target);
  std::free(target);  // NOLINT(cppcoreguidelines-no-malloc): realpath allocates so.
  return text;
}

}  // namespace

Result<std::string> read_script(const std::string& path) {
  auto text = read_file(path, kMostBytes);
  if (text.is_ok()) return text;
  const Status& status = text.status();
  if (status.code() == Code::kInvalidArgument) {
    return error(Code::kInvalidArgument, "{}, which sbatch refuses: name a job script",
                 status.message());
  }
  if (status.code() == Code::kTimeout) return status;
  return error(Code::kInvalidArgument,
               "{}: name a job script or a Python program, and check path and rights",
               status.message());
}

Status replace_script(const std::string& path, const std::string& text) {
  const std::string target = target_of(path);
  struct stat status {};
  if (::stat(target.c_str(), &status) != 0) {
    return Status::system(format_text("cannot write '{}'", path), errno);
  }
  std::string temporary = target + ".XXXXXX";
  UniqueFd fd(::mkostemp(temporary.data(), O_CLOEXEC));
  if (fd.get() < 0) {
    return Status::system(format_text("cannot write beside '{}'", path), errno);
  }
  Status done;
  if (const int failed = write_all(fd.get(), text); failed != 0) {
    done = Status::system(format_text("cannot write '{}'", temporary), failed);
  }
  if (done.is_ok() && ::fchmod(fd.get(), status.st_mode & 07777U) != 0) {
    done = Status::system(format_text("cannot give '{}' its rights", temporary), errno);
  }
  if (done.is_ok() && ::rename(temporary.c_str(), target.c_str()) != 0) {
    done = Status::system(format_text("cannot replace '{}'", path), errno);
  }
  if (!done.is_ok()) ::unlink(temporary.c_str());
  return done;
}

}  // namespace hvd
