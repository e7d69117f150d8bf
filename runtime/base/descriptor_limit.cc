// SPDX-License-Identifier: Apache-2.0
#include "base/descriptor_limit.h"

#include <dirent.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/format.h"

namespace hvd {
namespace {

/// Descriptors that a program opens meanwhile.
constexpr std::size_t kMargin = 32;
/// A limit of a billion, which some containers have, makes programs that close all slow.
constexpr std::size_t kEnough = 4096;

/// `otherwise` where there is no descriptor left to look.
std::size_t count_open(std::size_t otherwise) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), ::closedir);
  if (folder == nullptr) return errno == EMFILE ? otherwise : 0;
  std::size_t count = 0;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is this function's own.
  while (::readdir(folder.get()) != nullptr) ++count;
  return count > 3 ? count - 3 : 0;  // ".", ".." and the folder itself
}

std::string describe(const DescriptorLimit& now) {
  return format_text(
      "{} of {} files are open (hard limit {}); raise the limit: `ulimit -n`, LimitNOFILE= of the "
      "service, or limits.conf",
      now.open, now.soft, now.hard);
}

}  // namespace

Result<std::size_t> choose_soft_limit(const DescriptorLimit& now, std::size_t more) {
  const std::size_t needed = now.open + more + kMargin;
  if (needed <= now.soft) return now.soft;
  if (needed <= now.hard) return std::min(now.hard, std::max(2 * needed, kEnough));
  return error(Code::kSystem, "{} files must be open at once, some of them in reserve, but {}",
               needed, describe(now));
}

DescriptorLimit descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
  return {.soft = static_cast<std::size_t>(limit.rlim_cur),
          .hard = static_cast<std::size_t>(limit.rlim_max),
          .open = count_open(static_cast<std::size_t>(limit.rlim_cur))};
}

Status reserve_descriptors(std::size_t more) {
  const DescriptorLimit now = descriptor_limit();
  HVD_TRY_ASSIGN(const std::size_t soft, choose_soft_limit(now, more));
  if (soft == now.soft) return Status::ok();
  const rlimit raised{.rlim_cur = soft, .rlim_max = now.hard};
  if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) return Status::ok();
  return Status::system(format_text("cannot raise the limit of open files to {}", soft), errno);
}

std::string describe_descriptor_limit() { return describe(descriptor_limit()); }

}  // namespace hvd
