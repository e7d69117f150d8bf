// SPDX-License-Identifier: Apache-2.0
#include "base/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

namespace hvd {
namespace {

TEST(Environment, OfTheProcessHasWhatFollowsTheFirstEqualsSign) {
  ::setenv("HVD_TEST_VALUE", "a=b=", 1);
  ::setenv("HVD_TEST_EMPTY", "", 1);
  const Environment environment = Environment::of_process();
  EXPECT_EQ(environment.get("HVD_TEST_VALUE"), "a=b=");
  EXPECT_EQ(environment.get("HVD_TEST_EMPTY"), "");
  EXPECT_EQ(environment.get("HVD_TEST_NOWHERE"), std::nullopt);
  ::unsetenv("HVD_TEST_VALUE");
  ::unsetenv("HVD_TEST_EMPTY");
}

TEST(Environment, NumbersReachFromTheLowestToTheHighest) {
  struct Case {
    const char* text;
    std::optional<long long> value;  ///< Nothing: an error.
  };
  for (const Case& one : {Case{"-2", -2}, Case{"7", 7}, Case{"0", 0}, Case{"-3", std::nullopt},
                          Case{"8", std::nullopt}, Case{"4x", std::nullopt},
                          Case{" 4", std::nullopt}, Case{"99999999999999999999", std::nullopt}}) {
    Environment environment;
    environment.set("N", one.text);
    const auto got = environment.get_int("N", -2, 7);
    ASSERT_EQ(got.is_ok(), one.value.has_value()) << one.text;
    if (got.is_ok()) {
      EXPECT_EQ(got.value(), one.value);
    } else {
      EXPECT_NE(got.status().message().find("N='" + std::string(one.text) + "'"),
                std::string::npos);
    }
  }
  EXPECT_EQ(Environment{}.get_int("N", 0, 1).value(), std::nullopt);
  Environment empty;
  empty.set("N", "");
  EXPECT_EQ(empty.get_int("N", 0, 1).value(), std::nullopt) << "as unset";
}

TEST(Environment, UnsetsOneVariableAlone) {
  Environment environment;
  environment.set("A", "1");
  environment.set("B", "2");
  environment.unset("A");
  environment.unset("C");
  EXPECT_FALSE(environment.has("A"));
  EXPECT_EQ(environment.get("B"), "2");
}

}  // namespace
}  // namespace hvd
