// SPDX-License-Identifier: Apache-2.0
#include "collective/nccl_settings.h"

#include <gtest/gtest.h>

#include <string>

namespace hvd {
namespace {

NcclSettings settings_with(const std::string& name, const std::string& value) {
  Environment environment;
  environment.set(name, value);
  return NcclSettings::from(environment).value();
}

TEST(NcclSettings, TakeForOnWhatNcclTakesForOn) {
  const auto wants_order = [](const char* text) {
    return settings_with("NCCL_LAUNCH_ORDER_IMPLICIT", text).wants_order;
  };
  for (const char* const on : {"1", "2", "-1", " 1", "0x1"}) EXPECT_TRUE(wants_order(on)) << on;
  for (const char* const off : {"", "0", "00", "0x0", "no", "true"}) {
    EXPECT_FALSE(wants_order(off)) << off;
  }
  EXPECT_FALSE(NcclSettings::from({}).value().wants_order);
}

TEST(NcclSettings, FindTheServiceWhereItsVariableSays) {
  EXPECT_EQ(NcclSettings::from({}).value().ras, "localhost:28028");
  EXPECT_EQ(settings_with("NCCL_RAS_ADDR", "10.0.0.1:2").ras, "10.0.0.1:2");
  EXPECT_EQ(settings_with("NCCL_RAS_ENABLE", "0").ras, "");
}

TEST(NcclSettings, HaveOurSwitches) {
  EXPECT_TRUE(NcclSettings::from({}).value().registers);
  EXPECT_FALSE(settings_with("HVD_NCCL_REGISTER", "0").registers);
  EXPECT_TRUE(settings_with("HVD_SHARE_GPU", "1").shares_gpu);
  EXPECT_TRUE(settings_with("HVD_GPU_GRAPHS", "1").uses_graphs);
  EXPECT_EQ(settings_with("HVD_NCCL_LIBRARY", "/mine/libnccl.so.2").library, "/mine/libnccl.so.2");
}

}  // namespace
}  // namespace hvd
