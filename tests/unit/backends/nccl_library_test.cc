// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/nccl_library.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace hvd {
namespace {

TEST(NcclSource, TakesTheOneOfTheProcessBeforeAllOthers) {
  const NcclSource source = NcclSource::choose("/torch/libnccl.so.2", "/mine/libnccl.so.2");
  EXPECT_EQ(source.path, "/torch/libnccl.so.2");
  EXPECT_TRUE(source.is_loaded);
}

TEST(NcclSource, TakesTheOneThatIsNamedThenTheOneThatIsInstalled) {
  EXPECT_EQ(NcclSource::choose("", "/mine/libnccl.so.2").path, "/mine/libnccl.so.2");
  EXPECT_EQ(NcclSource::choose("", "").path, kNcclSoname);
}

TEST(NcclVersion, ReadsAsPeopleWriteIt) { EXPECT_EQ(nccl_version_text(22809), "2.28.9"); }

TEST(NcclVersion, IsThatOfTheHeadersWhereNoneIsLoaded) {
  if (!loaded_nccl_path().empty()) GTEST_SKIP() << "this process has NCCL";
  EXPECT_EQ(nccl_version_here(), NCCL_VERSION_CODE);
}

TEST(NcclLibrary, SaysWhatToDoWhereTheLibraryIsMissing) {
  if (!loaded_nccl_path().empty()) GTEST_SKIP() << "this process has NCCL";
  const auto nccl = NcclLibrary::open("/nonexistent/libnccl.so.2");
  ASSERT_FALSE(nccl.is_ok());
  EXPECT_EQ(nccl.status().code(), Code::kUnsupported);
  EXPECT_NE(nccl.status().message().find("/nonexistent/libnccl.so.2"), std::string::npos);
  EXPECT_NE(nccl.status().message().find("HVD_NCCL_LIBRARY"), std::string::npos);
}

TEST(NcclLibrary, RefusesALibraryThatIsNoNccl) {
  if (!loaded_nccl_path().empty()) GTEST_SKIP() << "this process has NCCL";
  const auto nccl = NcclLibrary::open("libc.so.6");
  ASSERT_FALSE(nccl.is_ok());
  EXPECT_NE(nccl.status().message().find("it has no version"), std::string::npos);
}

TEST(NcclLibrary, LoadsARealOneAndFindsItAgainInTheProcess) {
  const char* const path = std::getenv("HVD_TEST_NCCL_LIBRARY");  // NOLINT(concurrency-mt-unsafe)
  if (path == nullptr) GTEST_SKIP() << "no NCCL beside the headers of this build";
  const auto nccl = NcclLibrary::open(path);
  ASSERT_TRUE(nccl.is_ok()) << nccl.status().message();
  EXPECT_GE(nccl.value().version(), NcclLibrary::kOldest);
  EXPECT_NE(nccl.value().calls().all_reduce, nullptr);
  EXPECT_EQ(nccl.value().calls().mem_alloc != nullptr, nccl.value().version() >= 21903);
  EXPECT_EQ(nccl.value().path(), loaded_nccl_path());
  EXPECT_EQ(nccl.value().version(), nccl_version_here());
  const auto again = NcclLibrary::open("");
  ASSERT_TRUE(again.is_ok()) << again.status().message();
  EXPECT_EQ(again.value().path(), nccl.value().path());
  EXPECT_NE(again.value().describe().find("the process had loaded it"), std::string::npos);
  testing::internal::CaptureStderr();
  const auto other = NcclLibrary::open("/mine/libnccl.so.2");
  const std::string warning = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(other.is_ok()) << other.status().message();
  EXPECT_EQ(other.value().path(), nccl.value().path()) << "never two in a process";
  EXPECT_NE(warning.find("HVD_NCCL_LIBRARY=/mine/libnccl.so.2 is not used"), std::string::npos);
}

}  // namespace
}  // namespace hvd
