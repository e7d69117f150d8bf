// SPDX-License-Identifier: Apache-2.0
#include "launcher/preempt/folder_look.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "launcher/preempt/read_watch.h"

namespace hvd {
namespace {

namespace fs = std::filesystem;

class FolderLookTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "hvd-look-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& path, const std::string& text) {
    fs::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path) << text;
  }
  FolderLook look(bool skips_hidden = false) { return look_at_folder(folder_, skips_hidden); }

  fs::path folder_;
};

TEST_F(FolderLookTest, FindsWhatIsNewAndWhatHasChanged) {
  write("old.pt", "old");
  write("step-1/rank-0.pt", "one");
  const FolderLook before = look();
  EXPECT_EQ(written_between(before, look()), std::vector<std::string>());
  write("step-1/rank-0.pt", "another");
  write("new.pt", "new");
  fs::last_write_time(folder_ / "step-1/rank-0.pt",
                      fs::last_write_time(folder_ / "new.pt") + std::chrono::seconds(5));
  const std::vector<std::string> newest_last{"new.pt", "step-1/rank-0.pt"};
  EXPECT_EQ(written_between(before, look()), newest_last);
  EXPECT_EQ(newest_file(look()), "step-1/rank-0.pt");
}

TEST_F(FolderLookTest, LeavesFoldersOfToolsAlone) {
  write(".git/index", "x");
  write("run/.host-1.model.pt", "x");
  EXPECT_EQ(look(true).files.size(), 1U);
  EXPECT_EQ(look(false).files.size(), 2U);
}

TEST_F(FolderLookTest, AFolderThatIsNotThereHasNoFiles) {
  const FolderLook none = look_at_folder((folder_ / "nowhere").string(), false);
  EXPECT_TRUE(none.files.empty());
  EXPECT_FALSE(none.is_cut);
  EXPECT_EQ(newest_file(none), "");
}

TEST_F(FolderLookTest, ReadsAreSeenAndWritesAreNot) {
  write("step-1/rank-0.pt", "one");
  write("step-2/rank-0.pt", "two");
  ReadWatch reads(folder_.string());
  ASSERT_TRUE(reads.works());
  write("step-2/rank-0.pt", "three");
  std::string text;
  std::ifstream(folder_ / "step-1/rank-0.pt") >> text;
  (void)look();
  EXPECT_EQ(reads.take(), std::set<std::string>{"step-1/rank-0.pt"});
  EXPECT_FALSE(ReadWatch((folder_ / "nowhere").string()).works());
}

TEST(FolderLook, KnowsUnfinishedFilesByNameAndSize) {
  const FileSeen file{.size = 8};
  for (const char* name : {"a.pt.tmp", "run/.host-1-2.a.pt", "a.partial", "tmpx1", "a.tmp.17"}) {
    EXPECT_TRUE(looks_unfinished(name, file)) << name;
  }
  for (const char* name : {"a.pt", ".runs/a.pt", "checkpoint-0000000040", "template.pt"}) {
    EXPECT_FALSE(looks_unfinished(name, file)) << name;
  }
  EXPECT_TRUE(looks_unfinished("a.pt", FileSeen{}));
}

TEST(FolderLook, ComparesNamesByTheirNumbers) {
  const NumberedName name = numbered_name("step-100/rank-07.pt");
  EXPECT_EQ(name.name, "step-#/rank-#.pt");
  EXPECT_EQ(name.numbers, (std::vector<std::uint64_t>{100, 7}));
  EXPECT_EQ(numbered_name("99999999999999999999999").numbers.front(), UINT64_MAX);
  const auto highest = highest_numbered({"step-9", "step-10", "other-11", "step-x"}, "step-#");
  ASSERT_TRUE(highest.has_value());
  EXPECT_EQ(highest->numbers.front(), 10U);
  EXPECT_FALSE(highest_numbered({"latest.pt"}, "latest.pt").has_value());
}

}  // namespace
}  // namespace hvd
