// SPDX-License-Identifier: Apache-2.0
#include "c/loss_notice.h"

#include <sys/stat.h>

#include <charconv>
#include <optional>
#include <string>

#include "base/format.h"
#include "base/write_all.h"
#include "topology/launch_env.h"

namespace hvd {
namespace {

struct Pipe {
  int fd = -1;
  unsigned long long inode = 0;
};

std::optional<Pipe> parse(const std::string& text) {
  Pipe pipe;
  const char* const end = text.data() + text.size();
  const auto fd = std::from_chars(text.data(), end, pipe.fd);
  if (fd.ec != std::errc() || fd.ptr == end || *fd.ptr != ':') return std::nullopt;
  const auto inode = std::from_chars(fd.ptr + 1, end, pipe.inode);
  if (inode.ec != std::errc() || inode.ptr != end) return std::nullopt;
  return pipe;
}

/// A program may have closed the descriptor and used its number for a file of its own.
bool is_still(const Pipe& pipe) {
  struct stat found {};
  return ::fstat(pipe.fd, &found) == 0 && S_ISFIFO(found.st_mode) && found.st_ino == pipe.inode;
}

}  // namespace

std::function<void(int lost)> loss_notice(const Environment& environment, int rank) {
  const auto named = environment.get(launch_env::kLossPipe);
  const auto pipe = named ? parse(*named) : std::nullopt;
  if (!pipe) return {};
  return [pipe = *pipe, rank](int lost) {
    if (!is_still(pipe)) return;
    const std::string line = format_text("{} {}\n", rank, lost);
    // So short a line is written whole or not at all, and without it only an order is unknown.
    (void)write_without_signal(pipe.fd, line);
  };
}

}  // namespace hvd
