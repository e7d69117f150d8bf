// SPDX-License-Identifier: Apache-2.0
#include "base/log_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "base/settings.h"

namespace hvd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST(LogWords, FindsWhatIsNeitherLevelNorCategory) {
  EXPECT_THAT(unknown_log_words(""), IsEmpty());
  EXPECT_THAT(unknown_log_words("info,nccl,,select"), IsEmpty());
  EXPECT_THAT(unknown_log_words("infoo,nccl,INFO, debug"), ElementsAre("infoo", "INFO", " debug"));
}

TEST(LogWords, AreAllThatTheRuntimeLogsAndNoMore) {
  const std::regex call("\\blog(?:_enabled|_write)?\\(\\s*LogLevel::k\\w+,\\s*\"(\\w+)\"");
  std::set<std::string> used;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(HVD_RUNTIME_DIR)) {
    if (entry.path().extension() != ".cc" && entry.path().extension() != ".h") continue;
    const std::string text = text_of(entry.path());
    for (std::sregex_iterator found(text.begin(), text.end(), call), end; found != end; ++found) {
      used.insert((*found)[1].str());
    }
  }
  EXPECT_EQ(used, std::set<std::string>(kLogCategories.begin(), kLogCategories.end()));
}

TEST(LogWords, StandInTheReferenceAndInTheTableOfSettings) {
  const std::string page = text_of(HVD_RUNTIME_DIR "/../docs/reference/environment.md");
  std::string values;
  for (const std::string_view level : kLogLevels) values.append(level).append(" ");
  for (const std::string_view category : kLogCategories) {
    EXPECT_THAT(page, HasSubstr("`" + std::string(category) + "`"));
    values.append(category).append(category == kLogCategories.back() ? "" : " ");
  }
  EXPECT_EQ(find_setting("HVD_LOG")->values, values);
}

TEST(LogWords, WarnsOnce) {
  ::testing::internal::CaptureStderr();
  warn_of_log_words("info");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  ::testing::internal::CaptureStderr();
  warn_of_log_words("infoo");
  warn_of_log_words("infoo");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "hvd warning bootstrap: HVD_LOG=infoo: 'infoo' is none of error, warning, info, debug, "
            "bootstrap, buckets, device, mpi, nccl, select, staged, stall, timeline\n");
}

}  // namespace
}  // namespace hvd
