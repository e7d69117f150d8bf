// SPDX-License-Identifier: Apache-2.0
#include "base/text_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

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

}  // namespace
}  // namespace hvd
