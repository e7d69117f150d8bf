// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/loss_pipe.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

namespace hvd {
namespace {

using Losses = std::vector<std::pair<int, int>>;

/// A pipe and what a rank would write into it.
class LossPipeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = LossPipe::create();
    ASSERT_TRUE(made.is_ok()) << made.status().message();
    pipe_ = std::move(made).value();
    fd_ = std::atoi(pipe_.name().c_str());
  }
  bool write(std::string_view text) const {
    return ::write(fd_, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  }
  Losses read() {
    Losses found;
    for (const LossPipe::Loss& loss : pipe_.read()) found.emplace_back(loss.by, loss.lost);
    return found;
  }

  LossPipe pipe_;

 private:
  int fd_ = -1;
};

TEST_F(LossPipeTest, IsReadWithoutWaiting) {
  EXPECT_EQ(read(), Losses{});
  ASSERT_TRUE(write("0 3\n2 3\n"));
  EXPECT_EQ(read(), (Losses{{0, 3}, {2, 3}}));
  pipe_.close_writer();
  EXPECT_EQ(read(), Losses{});
}

TEST_F(LossPipeTest, JoinsALineThatComesInParts) {
  ASSERT_TRUE(write("1"));
  EXPECT_EQ(read(), Losses{});
  ASSERT_TRUE(write("2 3"));
  EXPECT_EQ(read(), Losses{});
  ASSERT_TRUE(write("4\n5"));
  EXPECT_EQ(read(), (Losses{{12, 34}}));
}

TEST_F(LossPipeTest, PassesOverWhatIsNoLoss) {
  ASSERT_TRUE(write("\n \nx\n1\n1 \n 1 2\n1  2\n1 2 3\n1 2x\n99999999999 1\n1\t2\n6 7\n"));
  EXPECT_EQ(read(), (Losses{{6, 7}}));
}

TEST_F(LossPipeTest, PassesOverALineWithoutEnd) {
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(write(std::string(4096, '1')));
    EXPECT_EQ(read(), Losses{});
  }
  // The end of such a line is not a loss of its own.
  ASSERT_TRUE(write("1 2\n3 4\n"));
  EXPECT_EQ(read(), (Losses{{3, 4}}));
}

TEST_F(LossPipeTest, PassesOverALineThatIsTooLongByOneCharacter) {
  const std::string longest = "1 " + std::string(29, '0') + "2";
  ASSERT_TRUE(write(longest + "\n" + longest + "3\n4 5\n"));
  EXPECT_EQ(read(), (Losses{{1, 2}, {4, 5}}));
}

TEST_F(LossPipeTest, ReadsAFloodInBoundedParts) {
  std::string lines;
  while (lines.size() < 4096) lines += "1 2\n";
  std::size_t written = 0;
  while (write(lines)) written += lines.size() / 4;
  std::size_t found = 0;
  for (std::size_t part = 1; part > 0; found += part) {
    part = read().size();
    EXPECT_LE(part, 65536U / 4);
  }
  EXPECT_EQ(found, written);
}

}  // namespace
}  // namespace hvd
