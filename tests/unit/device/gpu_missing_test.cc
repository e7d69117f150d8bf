// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "device/gpu.h"
#include "device/gpu_build.h"

namespace hvd {
namespace {

TEST(GpuMissing, SaysHowABuildGetsItsPartForGpus) {
  const auto gpus = find_gpus({});
  const Status status = gpus->open({DeviceKind::kCuda, 0}).status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(), testing::HasSubstr("scripts/gpu_packages.sh"));
  EXPECT_EQ(gpus->count().status().code(), Code::kUnsupported);
  EXPECT_EQ(gpu_kind_of_build(), DeviceKind::kCpu);
  for (const GpuPart& part : {describe_gpu_driver({}), describe_gpu_kernels()}) {
    EXPECT_FALSE(part.is_there) << part.name;
    EXPECT_THAT(part.reason, testing::HasSubstr("scripts/gpu_packages.sh"));
  }
}

}  // namespace
}  // namespace hvd
