// SPDX-License-Identifier: Apache-2.0
#include "base/text_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <thread>

#include "base/format.h"
#include "base/unique_fd.h"

namespace hvd {
namespace {

TEST(TextFile, IsReadWhole) {
  const std::string path = testing::TempDir() + "text_file_test." + std::to_string(::getpid());
  const std::string text(200'000, 'x');
  std::ofstream(path) << text;
  EXPECT_EQ(read_text_file(path), text);
  std::ofstream(path, std::ios::trunc).close();
  EXPECT_FALSE(read_text_file(path).has_value()) << "empty";
  ::unlink(path.c_str());
  EXPECT_FALSE(read_text_file(path).has_value()) << "absent";
}

TEST(TextFile, IsNoFolderAndHasAnEnd) {
  EXPECT_FALSE(read_text_file("/").has_value());
  EXPECT_FALSE(read_text_file("/dev/zero").has_value());
}

TEST(TextFile, SaysWhyItCannotBeRead) {
  EXPECT_EQ(read_file("/nowhere/at/all", 10).status().code(), Code::kSystem);
  EXPECT_EQ(read_file("/", 10).status().code(), Code::kSystem);
  EXPECT_EQ(read_file("/dev/zero", 10).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(read_file("/dev/null", 10).value(), "");
}

/// A named pipe, gone at the end.
class NamedPipe {
 public:
  NamedPipe() : path_(testing::TempDir() + "named_pipe." + std::to_string(::getpid())) {
    ::unlink(path_.c_str());
    EXPECT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  }
  ~NamedPipe() { ::unlink(path_.c_str()); }
  NamedPipe(const NamedPipe&) = delete;
  NamedPipe& operator=(const NamedPipe&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(TextFile, GivesUpOnAPipeThatNobodyWrites) {
  const NamedPipe pipe;
  const auto text = read_file(pipe.path(), 10, std::chrono::milliseconds(1));
  EXPECT_EQ(text.status().code(), Code::kTimeout);
  EXPECT_NE(text.status().message().find("nothing was written to it for 1 ms"), std::string::npos);
}

TEST(TextFile, WaitsForTheWriterOfAPipe) {
  const NamedPipe pipe;
  const std::string text(200'000, 'x');
  std::thread writer([&] { std::ofstream(pipe.path()) << text; });
  const auto found = read_file(pipe.path(), text.size());
  writer.join();
  EXPECT_EQ(found.value(), text);
}

TEST(TextFile, ReadsWhatProcessSubstitutionNames) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  ASSERT_EQ(::write(writer.get(), "abc", 3), 3);
  writer.reset();
  EXPECT_EQ(read_file(format_text("/dev/fd/{}", reader.get()), 10).value(), "abc");
}

}  // namespace
}  // namespace hvd
