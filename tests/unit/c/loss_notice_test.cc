// SPDX-License-Identifier: Apache-2.0
#include "c/loss_notice.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>

#include "base/format.h"
#include "base/unique_fd.h"
#include "topology/launch_env.h"

namespace hvd {
namespace {

/// The two ends of a pipe that is never waited for.
struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_NONBLOCK | O_CLOEXEC), 0);
    reader.reset(ends[0]);
    writer.reset(ends[1]);
  }
  /// As hvdrun names it to its ranks.
  std::string name() const {
    struct stat found {};
    EXPECT_EQ(::fstat(writer.get(), &found), 0);
    return format_text("{}:{}", writer.get(), static_cast<unsigned long long>(found.st_ino));
  }
  std::string read() const {
    std::string text(64, '\0');
    const ssize_t got = ::read(reader.get(), text.data(), text.size());
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return text;
  }
  UniqueFd reader;
  UniqueFd writer;
};

std::function<void(int)> notice(const std::string& named) {
  Environment environment;
  environment.set(std::string(launch_env::kLossPipe), named);
  return loss_notice(environment, 3);
}

TEST(LossNotice, NamesTheRankAndWhomItLost) {
  const Pipe pipe;
  notice(pipe.name())(5);
  EXPECT_EQ(pipe.read(), "3 5\n");
}

TEST(LossNotice, IsNoneWithoutAPipe) {
  EXPECT_FALSE(loss_notice(Environment(), 3));
  for (const char* name : {"", "4", ":", "4:", ":4", "x:4", "4:x", "4:4 ", "99999999999:4"}) {
    EXPECT_FALSE(notice(name)) << name;
  }
}

TEST(LossNotice, WritesNothingIntoAnotherPipeOfThatNumber) {
  Pipe pipe;
  const auto tell = notice(pipe.name());
  const Pipe other;
  ASSERT_EQ(::dup2(other.writer.get(), pipe.writer.get()), pipe.writer.get());
  tell(5);
  EXPECT_EQ(other.read(), "");
}

TEST(LossNotice, WritesNothingIntoAFileOfThatNumber) {
  Pipe pipe;
  const auto tell = notice(pipe.name());
  std::string path = testing::TempDir() + "loss_notice.XXXXXX";
  const UniqueFd file(::mkostemp(path.data(), O_CLOEXEC));
  ::unlink(path.c_str());
  ASSERT_EQ(::dup2(file.get(), pipe.writer.get()), pipe.writer.get());
  tell(5);
  struct stat found {};
  ASSERT_EQ(::fstat(file.get(), &found), 0);
  EXPECT_EQ(found.st_size, 0);
}

TEST(LossNotice, SurvivesAClosedDescriptorAndAFullPipe) {
  Pipe closed;
  const auto tell = notice(closed.name());
  closed.writer.reset();
  tell(5);
  const Pipe full;
  const std::string block(4096, 'x');
  while (::write(full.writer.get(), block.data(), block.size()) > 0) {
  }
  notice(full.name())(5);
}

TEST(LossNotice, SurvivesThatNobodyReads) {
  Pipe pipe;
  pipe.reader.reset();
  const auto before = ::signal(SIGPIPE, SIG_DFL);  // which ends a program
  notice(pipe.name())(5);
  ::signal(SIGPIPE, before);
}

}  // namespace
}  // namespace hvd
