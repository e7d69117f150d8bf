// SPDX-License-Identifier: Apache-2.0
// Streams that nothing can wait for any more when their requests leave: an error on every rank, at
// once.
#include <gmock/gmock.h>

#include <functional>
#include <memory>
#include <string>

#include "doubles/cuda/framework_capture.h"
#include "world/nccl_world.h"

namespace hvd {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// By the backend.
class GpuReady : public NcclWorld, public testing::WithParamInterface<const char*> {
 protected:
  /// Of rank 0; it may end before its time.
  std::unique_ptr<OwnStream> stream_;

  void SetUp() override {
    NcclWorld::SetUp();
    stream_ = std::make_unique<OwnStream>(GpuWorld::gpu(0));
  }
  void TearDown() override {
    stream_ = nullptr;
    NcclWorld::TearDown();
  }

  /// Runs `spoil` on rank 0 between a submission and its flush, while its thread is
  /// held; what it returns lives until the ranks have been told.
  void expect_failure(std::vector<int> nodes, const std::function<std::shared_ptr<void>()>& spoil,
                      const std::string& words) {
    EngineOptions options = World::quick_options();
    options.backend = GetParam();
    GpuWorld world(std::move(nodes), options);
    world.run([&](int rank, Engine& engine) {
      const DeviceTensor<float> tensor(GpuWorld::gpu(rank), std::vector<float>(9, 1.0F));
      ASSERT_TRUE(run_request(engine, gpu_request("first", rank, tensor, nullptr)).is_ok());
      HeldEngine held(engine);
      Request request = gpu_request("second", rank, tensor, rank == 0 ? stream_->get() : nullptr);
      request.more = true;
      const auto handle = engine.submit(std::move(request));
      ASSERT_TRUE(handle.is_ok()) << handle.status().message();
      const std::shared_ptr<void> spoilt = rank == 0 ? spoil() : nullptr;
      held.go_on();
      engine.flush();
      const Status status = engine.wait(handle.value(), soon());
      EXPECT_EQ(status.code() == Code::kPeerLost, rank != 0) << status.message();
      EXPECT_THAT(status.message(),
                  AllOf(HasSubstr("rank 0 on host "),
                        HasSubstr("'second': its stream must stay, uncaptured"), HasSubstr(words)));
      const Status later = run_request(engine, gpu_request("third", rank, tensor, nullptr));
      EXPECT_THAT(later.message(), HasSubstr("'second'"));
      engine.release(handle.value());
    });
  }
};

TEST_P(GpuReady, AStreamThatIsDestroyedTooSoon) {
  const auto destroy = [&] {
    stream_ = nullptr;
    return nullptr;
  };
  const std::string name = format_text("stream {}: ", stream_->get());
  expect_failure({2}, destroy,
                 name + "GPU 0 (Double of a GPU): cuStreamGetCtx: CUDA_ERROR_INVALID");
}

TEST_P(GpuReady, AStreamThatIsCapturedUntilItsTurnComes) {
  const auto capture = [&] { return std::make_shared<FrameworkCapture>(stream_->get()); };
  expect_failure({1, 1}, capture,
                 format_text("stream {} is being captured into a graph", stream_->get()));
}

INSTANTIATE_TEST_SUITE_P(Backends, GpuReady, testing::Values("nccl", "staged"),
                         [](const auto& backend) { return std::string(backend.param); });

}  // namespace
}  // namespace hvd
