// SPDX-License-Identifier: Apache-2.0
#include "backends/mpi/wait_notice.h"

#include <gtest/gtest.h>

#include <string>

namespace hvd {
namespace {

using namespace std::chrono_literals;

TEST(WaitNotice, SaysWhatWaitsAgainAndAgain) {
  testing::internal::CaptureStderr();
  {
    const WaitNotice notice("MPI_Init", 1ms);
    const Deadline deadline = Deadline::after(20s);
    while (notice.count() < 3 && !deadline.has_passed()) std::this_thread::yield();
  }
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("s now: MPI_Init"), std::string::npos) << text;
}

TEST(WaitNotice, SaysNothingOfAShortWait) {
  const WaitNotice notice("MPI_Init", 1h);
  EXPECT_EQ(notice.count(), 0);
}

}  // namespace
}  // namespace hvd
