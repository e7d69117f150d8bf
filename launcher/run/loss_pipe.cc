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

/// "RANK LOST", with room to spare.
constexpr std::size_t kLongestLine = 32;
/// What a pipe holds: a program that writes without end must not keep hvdrun from its work.
constexpr int kReadsAtOnce = 16;

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
  std::vector<Loss> losses;
  for (int i = 0; i < kReadsAtOnce; ++i) {
    const ssize_t got = ::read(reader_.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    take(std::string_view(buffer.data(), static_cast<std::size_t>(got)), losses);
  }
  return losses;
}

void LossPipe::take(std::string_view text, std::vector<Loss>& losses) {
  for (const char letter : text) {
    if (letter != '\n') {
      if (partial_.size() <= kLongestLine) partial_ += letter;
      continue;
    }
    Loss loss;
    if (partial_.size() <= kLongestLine && parse(partial_, loss)) losses.push_back(loss);
    partial_.clear();
  }
}

}  // namespace hvd
