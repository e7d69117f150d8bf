// SPDX-License-Identifier: Apache-2.0
#include "launcher/console/exit_code.h"

#include <gtest/gtest.h>

#include <csignal>

namespace hvd {
namespace {

TEST(ExitCode, SaysThatACoreWasDumped) {
  EXPECT_EQ(describe_end(SIGABRT), "signal 6 (Aborted)");
  EXPECT_EQ(describe_end(SIGABRT | 0x80), "signal 6 (Aborted), core dumped");
}

}  // namespace
}  // namespace hvd
