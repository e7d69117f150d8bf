// SPDX-License-Identifier: Apache-2.0
#include "launcher/site/time_limit.h"

#include <gtest/gtest.h>

namespace hvd {
namespace {

TEST(TimeLimit, ReadsEveryFormThatSbatchTakes) {
  const std::pair<std::string, long> cases[] = {
      {"10", 600},     {"10:30", 630},     {"02:00:00", 7200},    {"1-0", 86400},
      {"1-02", 93600}, {"1-02:30", 95400}, {"1-00:00:01", 86401}, {"100:00:00", 360000}};
  for (const auto& [text, seconds] : cases) {
    const auto time = parse_time_limit(text);
    ASSERT_TRUE(time.is_ok()) << text;
    EXPECT_EQ(time.value().count(), seconds) << text;
  }
}

TEST(TimeLimit, RefusesTheRest) {
  for (const char* text :
       {"", "-", "1:", ":1", "1-", "-1", "1:2:3:4", "1h", "99999999999999999999"}) {
    EXPECT_FALSE(parse_time_limit(text).is_ok()) << text;
  }
}

}  // namespace
}  // namespace hvd
