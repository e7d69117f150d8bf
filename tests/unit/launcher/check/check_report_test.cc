// SPDX-License-Identifier: Apache-2.0
#include "launcher/check/check_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/check/check_library.h"

namespace hvd {
namespace {

using testing::HasSubstr;

constexpr std::string_view kInfo = R"({"version": "1", "backends": [
  {"name": "shm", "available": true, "reason": "linked in"}], "bootstraps": [
  {"name": "pmix", "available": false, "reason": "no headers"}], "libraries": []})";

TEST(CheckReport, ReadsWhatTheRuntimeSaysOfItself) {
  const auto groups = parse_build_info(kInfo);
  ASSERT_TRUE(groups.is_ok()) << groups.status().message();
  ASSERT_EQ(groups.value().size(), 3U);
  EXPECT_EQ(groups.value()[0].parts[0].name, "shm");
  EXPECT_TRUE(groups.value()[0].parts[0].available);
  EXPECT_FALSE(groups.value()[1].parts[0].available);
  EXPECT_EQ(groups.value()[1].parts[0].reason, "no headers");
}

TEST(CheckReport, RefusesWhatAnotherVersionSays) {
  EXPECT_THAT(parse_build_info("{").status().message(), HasSubstr("not a JSON object"));
  EXPECT_THAT(parse_build_info("{}").status().message(), HasSubstr("no list 'backends'"));
}

TEST(CheckReport, PrintsEachPartWithItsSentence) {
  const CheckReport report{"1", "abc", parse_build_info(kInfo).value()};
  EXPECT_EQ(report_text(report),
            "hvdrun 1 (revision abc)\n\nbackends\n  [x] shm           linked in\n\nbootstraps\n"
            "  [ ] pmix          no headers\n\nlibraries\n");
  EXPECT_THAT(report_json(report), HasSubstr("\"reason\": \"no headers\""));
}

TEST(CheckReport, TellsProgramsVersionAndRevisionApart) {
  EXPECT_EQ(report_json({"1", "abc", {}}),
            "{\n  \"version\": \"1\",\n  \"revision\": \"abc\"\n}\n");
  EXPECT_THAT(report_json({"1", "abc", {{"libraries", {{"x", true, "/a\xff.so"}}}}}),
              HasSubstr("/a\xef\xbf\xbd.so"));
}

TEST(CheckReport, NamesGpusThatDoNotReachEachOther) {
  const CheckedPart all = describe_peer_access({4, {}});
  EXPECT_TRUE(all.available);
  EXPECT_EQ(all.reason, "the 4 GPUs of this machine reach each other's memory");
  const PeerAccess::Pair pair{"0000:07:00.0", "0000:47:00.0", "the GPUs do not support it"};
  const CheckedPart one = describe_peer_access({2, {pair}});
  EXPECT_FALSE(one.available);
  EXPECT_EQ(one.reason,
            "GPUs 0000:07:00.0 and 0000:47:00.0 do not reach each other's memory (the GPUs do not "
            "support it): NCCL copies between them through host memory");
  EXPECT_THAT(describe_peer_access({4, {pair, pair, pair}}).reason,
              HasSubstr("(and 2 more pairs)"));
}

TEST(CheckMachine, SaysSomethingAboutEveryLibrary) {
  for (const CheckedPart& part : check_machine().parts) EXPECT_FALSE(part.reason.empty());
}

}  // namespace
}  // namespace hvd
