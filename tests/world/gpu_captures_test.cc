// SPDX-License-Identifier: Apache-2.0
// Collectives on GPU memory while a framework captures CUDA graphs: neither spoils the other.
#include <gmock/gmock.h>

#include <string>
#include <thread>

#include "doubles/cuda/framework_capture.h"
#include "world/nccl_world.h"

namespace hvd {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

/// By the backend.
class GpuCaptures : public NcclWorld, public testing::WithParamInterface<const char*> {
 protected:
  static EngineOptions options() {
    EngineOptions options = World::quick_options();
    options.backend = GetParam();
    return options;
  }
};

Status sum(Engine& engine, int rank, std::size_t count, StreamHandle stream) {
  const DeviceTensor<float> tensor(GpuWorld::gpu(rank), std::vector<float>(count, 1.0F));
  HVD_TRY_ASSIGN(const auto handle, engine.submit(gpu_request("x", rank, tensor, stream)));
  Status status = engine.wait_stream(handle, stream, soon());
  if (status.is_ok()) status = engine.wait(handle, soon());
  engine.release(handle);
  if (status.is_ok()) {
    const std::vector<float> sums(count, static_cast<float>(engine.world().size));
    EXPECT_TRUE(tensor.values() == sums);
  }
  return status;
}

/// Results that the library makes, and frees.
Status gather(Engine& engine, int rank, StreamHandle stream) {
  const DeviceTensor<float> tensor(GpuWorld::gpu(rank), std::vector<float>(6, 1.0F));
  Request request = gpu_request("rows", rank, tensor, stream);
  request.operation = Allgather{};
  request.tensors[0].output = nullptr;
  return run_request(engine, std::move(request));
}

void train(Engine& engine, int rank, StreamHandle stream) {
  for (int step = 0; step < 5; ++step) {
    for (const std::size_t count : {std::size_t{100}, std::size_t{400'000}}) {
      const Status status = sum(engine, rank, count, stream);
      EXPECT_TRUE(status.is_ok()) << status.message();
    }
    const Status status = gather(engine, rank, stream);
    EXPECT_TRUE(status.is_ok()) << status.message();
  }
}

TEST_P(GpuCaptures, OfAnotherThreadGoOnFromTheFirstTensorToTheEndOfTheJob) {
  const OwnStream captured(GpuWorld::gpu(0));
  const FrameworkCapture capture(captured.get());
  GpuWorld world({2}, options());
  world.run([](int rank, Engine& engine) {
    const OwnStream stream(GpuWorld::gpu(rank));
    train(engine, rank, stream.get());
  });
}

TEST_P(GpuCaptures, OfAThreadThatWaitsForCollectivesGoOn) {
  GpuWorld world({2}, options());
  world.run([](int rank, Engine& engine) {
    const OwnStream stream(GpuWorld::gpu(rank));
    const OwnStream captured(GpuWorld::gpu(0));
    const FrameworkCapture capture(captured.get());
    train(engine, rank, stream.get());
  });
}

TEST_P(GpuCaptures, KeepTheirStreamFromCollectivesAndNothingElse) {
  GpuWorld world({2}, options());
  world.run([](int rank, Engine& engine) {
    Gpu& gpu = GpuWorld::gpu(rank);
    const OwnStream stream(gpu);
    const OwnStream other(gpu);
    const std::string name = format_text("stream {} is being captured", stream.get());
    const DeviceTensor<float> tensor(gpu, std::vector<float>(9, 1.0F));
    HeldEngine held(engine);
    const auto handle = engine.submit(gpu_request("y", rank, tensor, other.get())).value();
    {
      const FrameworkCapture capture(stream.get());
      const Status submitted = sum(engine, rank, 10, stream.get());
      EXPECT_EQ(submitted.code(), Code::kUnsupported);
      EXPECT_THAT(submitted.message(), AllOf(HasSubstr(format_text("rank {}: ", rank)),
                                             HasSubstr("'x'"), HasSubstr(name)));
      const Status waits = engine.wait_stream(handle, stream.get(), soon());
      EXPECT_EQ(waits.code(), Code::kUnsupported);
      EXPECT_THAT(waits.message(), AllOf(HasSubstr("'y'"), HasSubstr(name)));
    }
    held.go_on();
    EXPECT_TRUE(engine.wait_stream(handle, stream.get(), soon()).is_ok());
    engine.release(handle);
    const Status status = sum(engine, rank, 10, stream.get());
    EXPECT_TRUE(status.is_ok()) << status.message();
  });
}

/// A capture that begins after the submission has time until all ranks are ready.
TEST_P(GpuCaptures, MayPassBetweenASubmissionAndItsTurn) {
  GpuWorld world({2}, options());
  const OwnStream stream(GpuWorld::gpu(0));
  const DeviceTensor<float> tensor(GpuWorld::gpu(0), std::vector<float>(9, 1.0F));
  Request request = gpu_request("x", 0, tensor, stream.get());
  request.more = true;
  const auto handle = world.engine(0).submit(std::move(request)).value();
  {
    const FrameworkCapture capture(stream.get());
    world.engine(0).flush();
  }
  std::thread peer([&] {
    const OwnStream other(GpuWorld::gpu(1));
    const Status status = sum(world.engine(1), 1, 9, other.get());
    EXPECT_TRUE(status.is_ok()) << status.message();
  });
  EXPECT_TRUE(world.engine(0).wait(handle, soon()).is_ok());
  peer.join();
  EXPECT_THAT(tensor.values(), Each(2.0F));
}

INSTANTIATE_TEST_SUITE_P(Backends, GpuCaptures, testing::Values("nccl", "staged"),
                         [](const auto& backend) { return std::string(backend.param); });

}  // namespace
}  // namespace hvd
