// SPDX-License-Identifier: Apache-2.0
#include "device/ready_points.h"

#include <gmock/gmock.h>

#include "cuda_gpus.h"

namespace hvd {
namespace {

using ReadyPointsTest = CudaGpus;

TEST_F(ReadyPointsTest, RecordsOneEventForAllThatLeaveTogether) {
  const StreamHandle queue = stream();
  ReadyPoints points;
  const ReadyPointPtr first = points.join(*gpu_, queue);
  for (int i = 0; i < 160; ++i) EXPECT_EQ(points.join(*gpu_, queue), first);
  EXPECT_EQ(double_calls("cuEventRecord"), 0U);
  ASSERT_TRUE(points.close().is_ok());
  EXPECT_EQ(double_calls("cuEventRecord"), 1U);
  EXPECT_EQ(first->event().value(), first->event().value());
  EXPECT_EQ(double_calls("cuEventRecord"), 1U);
}

TEST_F(ReadyPointsTest, TellsStreamsAndGpusApart) {
  const StreamHandle queue = stream();
  const StreamHandle elsewhere = stream();
  ReadyPoints points;
  const ReadyPointPtr first = points.join(*gpu_, queue);
  EXPECT_NE(points.join(*gpu_, elsewhere), first);
  EXPECT_NE(points.join(*gpu_, nullptr), points.join(*other_gpu_, nullptr));
  ASSERT_TRUE(points.close().is_ok());
  EXPECT_EQ(double_calls("cuEventRecord"), 4U);
}

TEST_F(ReadyPointsTest, BeginsANewPointAfterClose) {
  const StreamHandle queue = stream();
  ReadyPoints points;
  const ReadyPointPtr first = points.join(*gpu_, queue);
  ASSERT_TRUE(points.close().is_ok());
  EXPECT_NE(points.join(*gpu_, queue), first);
  ASSERT_TRUE(points.close().is_ok());
  ASSERT_TRUE(points.close().is_ok());
  EXPECT_EQ(double_calls("cuEventRecord"), 2U);
}

TEST_F(ReadyPointsTest, IsRecordedByWhoComesFirst) {
  const StreamHandle queue = stream();
  ReadyPoints points;
  const ReadyPointPtr point = points.join(*gpu_, queue);
  const GpuEventPtr event = point->event().value();
  ASSERT_TRUE(points.close().is_ok());
  EXPECT_EQ(point->event().value(), event);
  EXPECT_EQ(double_calls("cuEventRecord"), 1U);
}

TEST_F(ReadyPointsTest, RecordsTheOthersWhereOneFails) {
  ReadyPoints points;
  const ReadyPointPtr first = points.join(*gpu_, stream());
  const ReadyPointPtr second = points.join(*gpu_, stream());
  double_fail("cuEventRecord", 1, CUDA_ERROR_UNKNOWN);
  EXPECT_FALSE(points.close().is_ok());
  EXPECT_FALSE(first->is_recorded());
  EXPECT_TRUE(second->is_recorded()) << "its stream may end now";
}

TEST_F(ReadyPointsTest, SaysThatItCannotRecord) {
  ReadyPoints points;
  (void)points.join(*gpu_, stream());
  double_fail("cuEventRecord", 1, CUDA_ERROR_UNKNOWN);
  EXPECT_THAT(points.close().message(), testing::HasSubstr("cuEventRecord"));
}

}  // namespace
}  // namespace hvd
