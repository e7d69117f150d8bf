// SPDX-License-Identifier: Apache-2.0
// A bucket packed by a graph: what a launch was given when it was captured is what it does.
#include <gtest/gtest.h>

#include "collective/pack_plan.h"
#include "kernel_arena.h"

namespace hvd {
namespace {

TEST(CapturedKernels, PackWhatTheTensorsHoldWhenTheGraphRuns) {
  Gpu& gpu = kernel_gpu();
  const std::size_t count = 10'000;
  KernelArena tensor(count * 4);
  KernelArena bucket(count * 4);
  auto stream = gpu.create_stream();
  ASSERT_TRUE(stream.is_ok()) << stream.status().message();
  ASSERT_TRUE(gpu.kernel("hvd_copy").is_ok());  // no capture holds the loading of a module
  ASSERT_TRUE(gpu.begin_capture(stream.value()).is_ok());
  {
    const PackSegment segment{tensor.at(), 0, count};
    const auto launches = plan_pack({&segment, 1}, bucket.at(), {});
    EXPECT_TRUE(enqueue(gpu, launches, stream.value()).is_ok());
  }
  auto graph = gpu.end_capture(stream.value());
  ASSERT_TRUE(graph.is_ok()) << graph.status().message();
  for (const int value : {1, 2}) {
    std::memset(tensor.expected(), value, count * 4);
    tensor.upload();
    ASSERT_TRUE(gpu.launch_graph(graph.value(), stream.value()).is_ok());
    auto done = gpu.record(stream.value());
    ASSERT_TRUE(done.is_ok());
    ASSERT_TRUE(gpu.wait(*done.value()).is_ok());
    const std::vector<std::byte> contents = bucket.contents();
    EXPECT_EQ(std::memcmp(contents.data(), tensor.expected(), contents.size()), 0) << value;
  }
  gpu.destroy_graph(graph.value());
  gpu.destroy_stream(stream.value());
}

}  // namespace
}  // namespace hvd
