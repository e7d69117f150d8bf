// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/loss_pipe.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>

namespace hvd {
namespace {

bool parse(std::string_view line, LossPipe::Loss& loss) {
  const char* const end = line.data() + line.size();
  const auto by = std::from_chars(line.data(), end, loss.by);
  if (by.ec != std::errc() || by.ptr == end || *by.ptr != ' ') return false;
  const auto lost = std::from_chars(by.ptr + 1, end, loss.lost);
  return lost.ec == std::errc() && lost.ptr == end;
}

}  // namespace

Result<LossPipe> LossPipe::create() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_NONBLOCK) != 0) return Status::system("pipe", errno);
  LossPipe pipe;
  pipe.reader_.reset(ends[0]);
  pipe.writer_.reset(ends[1]);  // Not close-on-exec: every rank inherits it.
  (void)::fcntl(ends[0], F_SETFD, FD_CLOEXEC);
  struct stat made {};
  if (::fstat(ends[1], &made) != 0) return Status::system("fstat of a pipe", errno);
  pipe.name_ = format_text("{}:{}", ends[1], static_cast<unsigned long long>(made.st_ino));
  return pipe;
}

std::vector<LossPipe::Loss> LossPipe::read() {
  std::array<char, 4096> buffer;
  for (ssize_t got = 0; (got = ::read(reader_.get(), buffer.data(), buffer.size())) > 0;) {
    partial_.append(buffer.data(), static_cast<std::size_t>(got));
  }
  std::vector<Loss> losses;
  std::size_t start = 0;
  for (std::size_t end = 0; (end = partial_.find('\n', start)) != std::string::npos;
       start = end + 1) {
    Loss loss;
    if (parse(std::string_view(partial_).substr(start, end - start), loss)) losses.push_back(loss);
  }
  partial_.erase(0, start);
  return losses;
}

}  // namespace hvd
