// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/output_files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/descriptor_limit.h"
#include "launcher/run/job_output.h"

namespace hvd {
namespace {

bool wait_for(int fd) {
  pollfd wait{fd, POLLIN, 0};
  return ::poll(&wait, 1, -1) == 1;
}

class OutputFilesTest : public testing::Test {
 protected:
  OutputFilesTest() {
    EXPECT_NE(::mkdtemp(folder_.data()), nullptr);
    (void)std::signal(SIGPIPE, SIG_IGN);
  }
  ~OutputFilesTest() override { std::filesystem::remove_all(folder_); }

  std::string read(const std::string& name) const {
    std::ifstream file(folder_ + "/1/" + name);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  void await_written(const OutputFiles& files) const {
    while (!files.is_empty()) ASSERT_TRUE(wait_for(wake_->get()));
  }

  std::string folder_ = testing::TempDir() + "/files.XXXXXX";
  std::shared_ptr<UniqueFd> wake_ = std::make_shared<UniqueFd>(::eventfd(0, EFD_CLOEXEC));
};

TEST_F(OutputFilesTest, WritesWhatItIsGiven) {
  OutputFiles files(folder_, wake_);
  ASSERT_TRUE(files.start({0}, wait_for).is_ok());
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/1/rank-0.err"));
  files.add(0, "out", "a");
  files.add(0, "out", "b\n");
  files.add(7, "out", "late\n");
  files.finish();
  await_written(files);
  EXPECT_EQ(read("rank-0.out"), "ab\n");
  EXPECT_EQ(read("rank-7.out"), "late\n");
  EXPECT_TRUE(files.next().is_forever());
}

/// In a process of its own, whose limit stays lowered: more files than may be open.
void write_more_files_than_may_be_open(const std::string& folder,
                                       const std::shared_ptr<UniqueFd>& wake, rlim_t hard) {
  constexpr int kRanks = 300;
  const rlimit limit{.rlim_cur = 256, .rlim_max = hard};
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) std::_Exit(2);
  OutputFiles files(folder, wake);
  if (!files.start({}, wait_for).is_ok()) std::_Exit(3);
  for (const std::string text : {"one\n", "two\n"}) {
    for (int rank = 0; rank < kRanks; ++rank) files.add(rank, "out", text);
  }
  files.finish();
  while (!files.is_empty()) (void)wait_for(wake->get());
  const std::string complaint = files.take_complaint(Clock::now());
  if (!complaint.empty()) std::fprintf(stderr, "%s\n", complaint.c_str());
  for (int rank = 0; rank < kRanks; ++rank) {
    std::ifstream file(folder + "/latest/rank-" + std::to_string(rank) + ".out");
    const std::string all{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    if (all != "one\ntwo\n") std::_Exit(4);
  }
  std::_Exit(complaint.empty() ? 0 : 5);
}

TEST_F(OutputFilesTest, WritesMoreFilesThanMayBeOpen) {
  const rlim_t high = descriptor_limit().hard;
  EXPECT_EXIT(write_more_files_than_may_be_open(folder_, wake_, high), testing::ExitedWithCode(0),
              "");
  EXPECT_EXIT(write_more_files_than_may_be_open(folder_, wake_, 256), testing::ExitedWithCode(0),
              "");
}

TEST_F(OutputFilesTest, ReportsAFileThatCannotBeClosed) {
  SinkTarget target(folder_ + "/file");
  ASSERT_EQ(target.open(), 0);
  ASSERT_EQ(::close(target.fd), 0);
  EXPECT_EQ(target.close(), EBADF);
  EXPECT_EQ(target.close(), 0) << "it is closed";
  SinkTarget shared(wake_->get());
  EXPECT_EQ(shared.close(), 0);
  EXPECT_TRUE(::eventfd_write(wake_->get(), 1) == 0) << "others have it still";
}

TEST_F(OutputFilesTest, RefusesAFolderThatCannotBeMade) {
  std::ofstream(folder_ + "/file") << "x";
  OutputFiles files(folder_ + "/file/below", wake_);
  EXPECT_THAT(files.start({0}, wait_for).message(), testing::HasSubstr("--output-dir: mkdir "));
}

TEST_F(OutputFilesTest, ComplainsOnceOfAFullDisk) {
  OutputFiles files(folder_, wake_);
  ASSERT_TRUE(files.start({}, wait_for).is_ok());
  std::filesystem::create_symlink("/dev/full", folder_ + "/1/rank-0.out");
  files.add(0, "out", "lost\n");
  await_written(files);
  EXPECT_THAT(files.take_complaint(Clock::now()),
              testing::HasSubstr("rank-0.out: No space left on device; the job goes on"));
  files.add(0, "out", "lost\n");
  await_written(files);
  EXPECT_EQ(files.take_complaint(Clock::now()), "");
  EXPECT_TRUE(files.has_failed());
}

TEST_F(OutputFilesTest, HoldsNobodyUpWhereAFileDoesNotAnswerAndSaysSo) {
  OutputFiles files(folder_, wake_);
  ASSERT_TRUE(files.start({}, wait_for).is_ok());
  // Nobody reads it: to open it for writing takes for ever, as where a server is gone.
  const std::string fifo = folder_ + "/1/rank-0.out";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  files.add(0, "out", "unread\n");
  EXPECT_FALSE(files.is_full());
  files.add(0, "out", std::string(2 << 20, 'x'));
  EXPECT_TRUE(files.is_full());
  const Clock::time_point now = Clock::now();
  EXPECT_EQ(files.take_complaint(now), "");
  EXPECT_EQ(files.next().time(), now + std::chrono::seconds(10));
  EXPECT_THAT(files.take_complaint(now + std::chrono::seconds(10)),
              testing::HasSubstr("has taken nothing for 10 s"));
  EXPECT_EQ(files.take_complaint(now + std::chrono::seconds(99)), "") << "said once";
  EXPECT_TRUE(files.next().is_forever());
  EXPECT_FALSE(files.is_empty());
  // The thread that is left behind ends with the wait for a reader.
  const UniqueFd reader(::open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
}

TEST_F(OutputFilesTest, GivesUpAStartThatIsNotWaitedFor) {
  OutputFiles files(folder_, wake_);
  const Status status = files.start({0}, [](int done) { return !wait_for(done); });
  EXPECT_EQ(status.code(), Code::kAborted);
}

/// In a process of its own, whose standard output becomes a pipe that nobody reads.
void write_what_nobody_reads() {
  std::array<int, 2> unread{};
  if (::pipe2(unread.data(), O_CLOEXEC) != 0) std::_Exit(2);
  if (::dup2(unread[1], STDOUT_FILENO) != STDOUT_FILENO) std::_Exit(2);
  Result<Poller> poller = Poller::create();
  if (!poller.is_ok()) std::_Exit(3);
  JobOutput output(JobOutputOptions{});
  Command command;
  command.rank = 0;
  UniqueFd rank_output;
  UniqueFd rank_error;
  if (!output.watch_in(poller.value(), 99).is_ok()) std::_Exit(3);
  if (!output.add_streams(command, rank_output, rank_error).is_ok()) std::_Exit(3);
  const std::string line = std::string(4095, 'x') + "\n";
  constexpr int kLines = 512;  // 2 MiB
  // False: the line stays in the rank's pipe.
  const auto takes_a_line = [&] {
    const ssize_t size = ::write(rank_output.get(), line.data(), line.size());
    if (size != static_cast<ssize_t>(line.size())) std::_Exit(4);
    std::array<Poller::Event, 4> events{};
    const std::size_t count = poller.value().wait(events, Deadline::at(Clock::now())).value_or(0);
    for (std::size_t i = 0; i < count; ++i) {
      if (events[i].tag != 0) continue;
      output.read(0);
      return true;
    }
    return false;
  };
  int taken = 0;
  while (taken < kLines && takes_a_line()) ++taken;
  if (taken == kLines) std::_Exit(5);  // The rank does not wait.
  output.stop_waiting();
  if (!output.advance(Clock::now()).is_ok()) std::_Exit(6);
  for (int i = 0; i < kLines; ++i) {
    if (!takes_a_line()) std::_Exit(7);  // The rank waits, though the job ends.
  }
  std::_Exit(0);
}

TEST(JobOutput, HoldsARankUpWhoseOutputNobodyReadsUntilTheJobEnds) {
  EXPECT_EXIT(write_what_nobody_reads(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace hvd
