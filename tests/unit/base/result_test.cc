// SPDX-License-Identifier: Apache-2.0
#include "base/result.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace hvd {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return error(Code::kInvalidArgument, "{} is odd", value);
  return value / 2;
}

Result<int> quarter(int value) {
  HVD_TRY_ASSIGN(const int once, half(value));
  HVD_TRY_ASSIGN(const int twice, half(once));
  return twice;
}

TEST(Result, CarriesValueOrStatus) {
  EXPECT_EQ(quarter(8).value(), 2);
  EXPECT_EQ(quarter(6).status().message(), "3 is odd");
  EXPECT_EQ(quarter(6).status().code(), Code::kInvalidArgument);
}

TEST(Status, SystemErrorsCarryTextAndNumber) {
  const Status status = Status::system("open /x", ENOENT).with_context("rank 3");
  EXPECT_EQ(status.code(), Code::kSystem);
  EXPECT_EQ(status.message(), "rank 3: open /x: No such file or directory (errno 2)");
}

}  // namespace
}  // namespace hvd
