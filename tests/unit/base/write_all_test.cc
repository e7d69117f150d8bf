// SPDX-License-Identifier: Apache-2.0
#include "base/write_all.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <thread>

#include "base/unique_fd.h"

namespace hvd {
namespace {

class WriteAll : public testing::Test {
 protected:
  WriteAll() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    reader_.reset(ends[0]);
    writer_.reset(ends[1]);
    before_ = ::signal(SIGPIPE, SIG_DFL);  // which ends a program
  }
  ~WriteAll() override { ::signal(SIGPIPE, before_); }

  UniqueFd reader_;
  UniqueFd writer_;
  sighandler_t before_ = SIG_DFL;
};

TEST_F(WriteAll, WritesMoreThanAPipeHolds) {
  const std::string text(1 << 20, 'x');
  std::string got;
  std::thread reader([&] {
    std::array<char, 4096> buffer{};
    for (;;) {
      const auto count = ::read(reader_.get(), buffer.data(), buffer.size());
      if (count <= 0) return;
      got.append(buffer.data(), static_cast<std::size_t>(count));
    }
  });
  EXPECT_EQ(write_all(writer_.get(), text), 0);
  writer_.reset();
  reader.join();
  EXPECT_EQ(got, text);
}

TEST_F(WriteAll, AReaderThatIsGoneIsAnErrorAndNoSignal) {
  reader_.reset();
  EXPECT_EQ(write_all(writer_.get(), "text"), EPIPE);
  EXPECT_EQ(write_all(writer_.get(), ""), 0);
  sigset_t mask;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  EXPECT_EQ(::sigismember(&mask, SIGPIPE), 0) << "the thread's mask is as before";
}

TEST_F(WriteAll, SaysWhatFailed) { EXPECT_EQ(write_all(-1, "text"), EBADF); }

}  // namespace
}  // namespace hvd
