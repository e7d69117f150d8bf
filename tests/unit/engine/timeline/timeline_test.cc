// SPDX-License-Identifier: Apache-2.0
#include "engine/timeline/timeline.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <future>

#include "base/text_file.h"

namespace hvd {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// A folder of its own for each test.
class TimelineTest : public testing::Test {
 protected:
  TimelineTest() {
    std::string name = (std::filesystem::temp_directory_path() / "hvd_timeline_XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~TimelineTest() override { std::filesystem::remove_all(folder_); }

  std::string path(std::string_view name) const { return (folder_ / name).string(); }
  std::string text(std::string_view name) const {
    return read_file(path(name), std::size_t{64} << 20).value_or("");
  }

  std::filesystem::path folder_;
};

/// One request from its submission to its end; true when it is in the timeline.
bool record(Timeline& timeline, const std::string& name) {
  const TracedRequest traced = timeline.submitted("allreduce", name, 0, 8, true);
  traced.decided(1);
  traced.started();
  traced.completed(Status::ok());
  traced.waited(name, std::chrono::microseconds(1));
  return traced.is_traced();
}

std::size_t count(const std::string& text, std::string_view part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST_F(TimelineTest, WritesWhatIsTakenDownBetweenStartAndStop) {
  Timeline timeline(0, "host");
  EXPECT_FALSE(record(timeline, "before"));
  ASSERT_TRUE(timeline.start({path("t"), true}).is_ok());
  EXPECT_TRUE(timeline.is_on());
  EXPECT_TRUE(record(timeline, "during"));
  timeline.decided_batch(1, 0, 3);
  EXPECT_TRUE(timeline.stop().is_ok());
  EXPECT_FALSE(timeline.is_on());
  EXPECT_FALSE(record(timeline, "after"));
  const std::string written = text("t");
  EXPECT_THAT(written, StartsWith("[\n"));
  EXPECT_THAT(written, EndsWith("\"left_out\":0}}\n]\n"));
  EXPECT_THAT(written, HasSubstr("\"during\""));
  EXPECT_THAT(written, HasSubstr("\"batch 1\""));
  EXPECT_THAT(written, HasSubstr("NEGOTIATE_ALLREDUCE"));
  EXPECT_THAT(written, Not(HasSubstr("before")));
  EXPECT_THAT(written, Not(HasSubstr("after")));
  EXPECT_TRUE(timeline.stop().is_ok());
}

TEST_F(TimelineTest, MarksBatchesOnlyWhereAsked) {
  Timeline timeline(0, "host");
  ASSERT_TRUE(timeline.start({path("t"), false}).is_ok());
  timeline.decided_batch(1, 0, 3);
  EXPECT_TRUE(timeline.stop().is_ok());
  EXPECT_THAT(text("t"), Not(HasSubstr("batch")));
}

TEST_F(TimelineTest, WritesOnRankZeroOrWhereThePathHasAPlaceForTheRank) {
  Timeline timeline(12, "host");
  ASSERT_TRUE(timeline.start({path("t"), false}).is_ok());
  EXPECT_FALSE(timeline.is_on());
  EXPECT_FALSE(std::filesystem::exists(path("t")));
  ASSERT_TRUE(timeline.start({path("{rank}-of-{rank}"), false}).is_ok());
  EXPECT_TRUE(timeline.stop().is_ok());
  EXPECT_THAT(text("12-of-12"), HasSubstr("\"rank 12 on host\""));
}

TEST_F(TimelineTest, SaysWhyItCannotStart) {
  Timeline timeline(0, "host");
  const Status missing = timeline.start({path("no/folder"), false});
  EXPECT_EQ(missing.code(), Code::kSystem);
  EXPECT_THAT(missing.message(), HasSubstr("no/folder"));
  EXPECT_THAT(missing.message(), HasSubstr("No such file"));
  EXPECT_EQ(timeline.start({}).code(), Code::kInvalidArgument);
  ASSERT_TRUE(timeline.start({path("t"), false}).is_ok());
  const Status twice = timeline.start({path("u"), false});
  EXPECT_EQ(twice.code(), Code::kInvalidArgument);
  EXPECT_THAT(twice.message(), HasSubstr(path("t")));
}

TEST_F(TimelineTest, TellsAtTheStopOfAFullDisk) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  Timeline timeline(0, "host");
  ASSERT_TRUE(timeline.start({"/dev/full", false}).is_ok());
  const Status stopped = timeline.stop();
  EXPECT_EQ(stopped.code(), Code::kSystem);
  EXPECT_THAT(stopped.message(), HasSubstr("/dev/full"));
  EXPECT_TRUE(timeline.start({path("t"), false}).is_ok());
  EXPECT_TRUE(record(timeline, "w"));
  EXPECT_TRUE(timeline.stop().is_ok());
}

TEST_F(TimelineTest, LeavesWholeRequestsOutWhereTheDiskIsTooSlow) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  // Both ends: the pipe opens, fills, and stands still until somebody reads.
  const int pipe = ::open(path("pipe").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(pipe, 0);
  constexpr std::size_t kMostWaiting = 64;
  constexpr int kRequests = 20'000;
  Timeline timeline(0, "host", kMostWaiting, std::chrono::minutes(1));
  ASSERT_TRUE(timeline.start({path("pipe"), false}).is_ok());
  // Some 600 bytes for each; the pipe takes 64 KiB.
  int taken = 0;
  for (int i = 0; i < kRequests; ++i) taken += record(timeline, "w") ? 1 : 0;
  EXPECT_LT(taken, kRequests);
  auto stopped = std::async(std::launch::async, [&] { return timeline.stop(); });
  std::string read;
  std::string part(4096, '\0');
  while (read.find("\n]\n") == std::string::npos) {
    const ssize_t got = ::read(pipe, part.data(), part.size());
    ASSERT_GT(got, 0);
    read.append(part, 0, static_cast<std::size_t>(got));
  }
  EXPECT_TRUE(stopped.get().is_ok());
  ::close(pipe);
  EXPECT_EQ(count(read, "NEGOTIATE_"), static_cast<std::size_t>(taken));
  EXPECT_EQ(count(read, "\"outcome\":\"ok\""), static_cast<std::size_t>(taken));
  EXPECT_THAT(read, HasSubstr("left out: the disk was too slow"));
  EXPECT_THAT(read, Not(HasSubstr("\"left_out\":0")));
}

TEST_F(TimelineTest, GivesUpAFileSystemThatDoesNotAnswer) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const int pipe = ::open(path("pipe").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(pipe, 0);
  constexpr std::chrono::milliseconds kEndLimit{50};
  {
    Timeline timeline(0, "host", Timeline::kMostWaiting, kEndLimit);
    ASSERT_TRUE(timeline.start({path("pipe"), false}).is_ok());
    // More than the pipe takes: its writer stands still in write(), as on a dead server of files.
    for (int i = 0; i < 1'000; ++i) record(timeline, "w");
    const Status stopped = timeline.stop();
    EXPECT_EQ(stopped.code(), Code::kTimeout) << stopped.message();
    EXPECT_THAT(stopped.message(), HasSubstr(path("pipe")));
    EXPECT_THAT(stopped.message(), HasSubstr("does not answer"));
    EXPECT_EQ(timeline.start({path("t"), false}).code(), Code::kTimeout);
    EXPECT_FALSE(record(timeline, "after"));
  }
  // The timeline has gone; its writer ends when it can.
  std::string read;
  std::string part(4096, '\0');
  while (read.find("\n]\n") == std::string::npos) {
    const ssize_t got = ::read(pipe, part.data(), part.size());
    ASSERT_GT(got, 0);
    read.append(part, 0, static_cast<std::size_t>(got));
  }
  ::close(pipe);
}

TEST_F(TimelineTest, EndsWithAnErrorWhereNobodyReadsAnyMore) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const int reader = ::open(path("pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  const auto before = ::signal(SIGPIPE, SIG_DFL);  // which ends a program
  Timeline timeline(0, "host", Timeline::kMostWaiting, std::chrono::minutes(1));
  ASSERT_TRUE(timeline.start({path("pipe"), false}).is_ok());
  ::close(reader);
  record(timeline, "w");
  const Status stopped = timeline.stop();
  ::signal(SIGPIPE, before);
  EXPECT_EQ(stopped.code(), Code::kSystem) << stopped.message();
  EXPECT_THAT(stopped.message(), HasSubstr("Broken pipe"));
}

TEST_F(TimelineTest, MayStartAndStopWhileOthersTakeDown) {
  Timeline timeline(0, "host", Timeline::kMostWaiting, std::chrono::minutes(1));
  std::atomic<bool> ended{false};
  std::vector<std::thread> threads;
  threads.reserve(3);
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      while (!ended.load()) record(timeline, "w" + std::to_string(i));
    });
  }
  const std::string paths[] = {path("a"), path("b")};
  const auto restart = [&](const std::string& name) {
    for (int i = 0; i < 20; ++i) {
      static_cast<void>(timeline.start({name, true}));
      EXPECT_TRUE(timeline.stop().is_ok());
    }
  };
  std::thread other([&] { restart(paths[1]); });
  restart(paths[0]);
  other.join();
  ended.store(true);
  for (std::thread& thread : threads) thread.join();
  for (const char* name : {"a", "b"}) {
    if (!std::filesystem::exists(path(name))) continue;
    EXPECT_THAT(text(name), EndsWith("\n]\n")) << name;
  }
}

TEST_F(TimelineTest, IsWholeAfterItsEnd) {
  {
    Timeline timeline(0, "host");
    ASSERT_TRUE(timeline.start({path("t"), false}).is_ok());
    record(timeline, "w");
  }
  EXPECT_THAT(text("t"), EndsWith("\n]\n"));
}

}  // namespace
}  // namespace hvd
