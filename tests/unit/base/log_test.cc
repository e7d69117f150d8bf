// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace hvd {
namespace {

/// HVD_LOG is read once a process: each case is a process of its own, which starts anew.
class Log : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

[[noreturn]] void say_all(const char* wanted) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): this process has one thread.
  ::setenv("HVD_LOG", wanted, 1);
  log(LogLevel::kDebug, "nccl", "{}", "a");
  log(LogLevel::kInfo, "select", "{}", "b");
  log(LogLevel::kInfo, "bootstrap", "{}", "c");
  log(LogLevel::kWarning, "nccl", "{}", "d");
  log(LogLevel::kError, "nccl", "{}", "e");
  std::_Exit(0);
}

TEST_F(Log, SaysWarningsWhereNothingElseIsAskedFor) {
  EXPECT_EXIT(say_all(""), testing::ExitedWithCode(0),
              "^hvd warning nccl: d\nhvd error nccl: e\n$");
}

TEST_F(Log, SaysALevelAndThoseAboveIt) {
  EXPECT_EXIT(say_all("error"), testing::ExitedWithCode(0), "^hvd error nccl: e\n$");
  EXPECT_EXIT(say_all("info"), testing::ExitedWithCode(0),
              "^hvd info select: b\nhvd info bootstrap: c\nhvd warning nccl: d\n");
  EXPECT_EXIT(say_all("debug"), testing::ExitedWithCode(0), "^hvd debug nccl: a\n");
}

TEST_F(Log, SaysAllOfACategoryWhereverItStandsInTheList) {
  EXPECT_EXIT(say_all("error,nccl,select"), testing::ExitedWithCode(0),
              "^hvd debug nccl: a\nhvd info select: b\nhvd warning nccl: d\nhvd error nccl: e\n$");
  EXPECT_EXIT(say_all("bootstrap,error"), testing::ExitedWithCode(0),
              "^hvd info bootstrap: c\nhvd error nccl: e\n$");
}

}  // namespace
}  // namespace hvd
