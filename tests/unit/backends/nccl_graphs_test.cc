// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/nccl_graphs.h"

#include <gtest/gtest.h>

#include <cstring>

#include "unit/device/cuda_gpus.h"

namespace hvd {
namespace {

constexpr FrozenBucket kFirst{.schedule = 1, .number = 1};

/// A "bucket" is one tensor that a half fills with a byte.
class NcclGraphsTest : public CudaGpus {
 protected:
  void SetUp() override {
    CudaGpus::SetUp();
    queue_ = stream();
    tensor_ = allocate<std::uint8_t>(kBytes);
    other_ = allocate<std::uint8_t>(kBytes);
    graphs_ = std::make_unique<NcclGraphs>(*gpu_, queue_);
  }
  void TearDown() override {
    double_release();
    static_cast<void>(finish(*gpu_, queue_));
    graphs_.reset();
    EXPECT_EQ(double_graphs(), 0U) << "graphs are left";
    gpu_->deallocate(tensor_);
    gpu_->deallocate(other_);
    CudaGpus::TearDown();
  }
  static NcclGraphShape shape_of(const std::uint8_t* tensor) {
    NcclGraphShape shape{.operation = Allreduce{}};
    shape.tensors.push_back({tensor, tensor, kBytes});
    return shape;
  }
  /// Puts both halves of a batch into the stream, without waiting.
  void enqueue(const FrozenBucket& bucket, std::uint8_t* tensor, const NcclGraphShape& shape) {
    FrozenGraphs* const found = graphs_->find(bucket, shape);
    for (const NcclHalf half : {NcclHalf::kPack, NcclHalf::kUnpack}) {
      const auto fill = [&] {
        ++enqueued_;
        std::uint8_t* const at = tensor + (half == NcclHalf::kPack ? 0 : kBytes / 2);
        return gpu_->set_bytes(at, 7, kBytes / 2, queue_);
      };
      const Status status = found == nullptr ? fill() : graphs_->run(*found, half, fill);
      ASSERT_TRUE(status.is_ok()) << status.message();
    }
  }
  /// The same, and both halves have done their work.
  void step(const FrozenBucket& bucket, std::uint8_t* tensor) {
    step(bucket, tensor, shape_of(tensor));
  }
  void step(const FrozenBucket& bucket, std::uint8_t* tensor, const NcclGraphShape& shape) {
    std::memset(tensor, 0, kBytes);
    enqueue(bucket, tensor, shape);
    ASSERT_TRUE(finish(*gpu_, queue_).is_ok());
    EXPECT_EQ(tensor[0], 7);
    EXPECT_EQ(tensor[kBytes - 1], 7);
  }
  void expect(std::uint64_t captures, std::uint64_t replays, std::uint64_t fallbacks) const {
    EXPECT_EQ(graphs_->counts().captures, captures);
    EXPECT_EQ(graphs_->counts().replays, replays);
    EXPECT_EQ(graphs_->counts().fallbacks, fallbacks);
  }

  static constexpr std::size_t kBytes = 64;
  StreamHandle queue_ = nullptr;
  std::uint8_t* tensor_ = nullptr;
  std::uint8_t* other_ = nullptr;
  int enqueued_ = 0;
  std::unique_ptr<NcclGraphs> graphs_;
};

TEST_F(NcclGraphsTest, CaptureTheSecondTimeAndReplayFromThenOn) {
  step(kFirst, tensor_);
  EXPECT_EQ(double_graphs(), 0U);
  step(kFirst, tensor_);
  expect(2, 0, 0);
  for (int i = 0; i < 5; ++i) step(kFirst, tensor_);
  expect(2, 10, 0);
  EXPECT_EQ(enqueued_, 4) << "replays enqueue nothing themselves";
  EXPECT_EQ(double_graphs(), 2U);
}

TEST_F(NcclGraphsTest, KeepBucketsAndElementTypesApart) {
  NcclGraphShape doubles = shape_of(other_);
  doubles.dtype = DataType::kFloat64;
  for (int i = 0; i < 3; ++i) {
    step(kFirst, tensor_);
    step({.schedule = 1, .number = 2}, other_);
    step(kFirst, other_, doubles);
  }
  expect(6, 6, 0);
}

TEST_F(NcclGraphsTest, FallBackWhereAnAddressChangesAndCaptureAnew) {
  for (int i = 0; i < 3; ++i) step(kFirst, tensor_);
  step(kFirst, other_);
  expect(2, 2, 1);
  step(kFirst, other_);
  step(kFirst, other_);
  expect(4, 4, 1);
  EXPECT_EQ(double_graphs(), 2U) << "the first graphs have been destroyed";
}

TEST_F(NcclGraphsTest, FallBackWhereAnythingElseChanges) {
  const NcclGraphShape first = shape_of(tensor_);
  std::vector<NcclGraphShape> others(6, first);
  others[0].operation = Allreduce{.divisor = 3};
  others[1].is_neutral = true;
  others[2].bucket = other_;
  others[3].spare = other_;
  others[4].tensors[0].count = 1;
  others[5].tensors.push_back(others[5].tensors[0]);
  for (std::size_t i = 0; i < others.size(); ++i) {
    const FrozenBucket bucket{.schedule = 1, .number = static_cast<std::uint32_t>(i + 1)};
    for (int times = 0; times < 3; ++times) step(bucket, tensor_, first);
    step(bucket, tensor_, others[i]);
    EXPECT_EQ(graphs_->counts().fallbacks, i + 1);
  }
}

TEST_F(NcclGraphsTest, GiveUpABucketWhoseAddressesKeepChanging) {
  for (int i = 0; i < 20; ++i) {
    std::uint8_t* const tensor = i % 2 == 0 ? tensor_ : other_;
    step(kFirst, tensor);
    step(kFirst, tensor);
  }
  const auto most = static_cast<std::uint64_t>(NcclGraphs::kMostLosses) + 1;
  expect(most * 2, 0, most);
}

TEST_F(NcclGraphsTest, GoTheOrdinaryWayWhereTheDriverFails) {
  std::uint32_t number = 0;
  for (const char* const call : {"cuStreamBeginCapture", "cuGraphInstantiateWithFlags",
                                 "cuGraphLaunch", "cuMemsetD8Async"}) {
    const FrozenBucket bucket{.schedule = 1, .number = ++number};
    step(bucket, tensor_);
    double_fail(call, 1, CUDA_ERROR_OUT_OF_MEMORY);
    const std::uint64_t captures = graphs_->counts().captures;
    for (int i = 0; i < 3; ++i) step(bucket, tensor_);
    EXPECT_EQ(graphs_->counts().fallbacks, number) << call;
    EXPECT_EQ(graphs_->counts().captures, captures) << call << ": it was tried again";
  }
}

TEST_F(NcclGraphsTest, LeaveTheStreamUsableWhereACaptureDoesNotEndAtOnce) {
  step(kFirst, tensor_);
  double_fail("cuStreamEndCapture", 1, CUDA_ERROR_OUT_OF_MEMORY);
  for (int i = 0; i < 3; ++i) step(kFirst, tensor_);
}

TEST_F(NcclGraphsTest, FallBackWhereAReplayFails) {
  for (int i = 0; i < 3; ++i) step(kFirst, tensor_);
  double_fail("cuGraphLaunch", 2, CUDA_ERROR_OUT_OF_MEMORY);
  step(kFirst, tensor_);
  step(kFirst, tensor_);
  expect(2, 3, 1);
}

TEST_F(NcclGraphsTest, DropAllWhenBucketsAreFrozenAnew) {
  for (int i = 0; i < 3; ++i) step(kFirst, tensor_);
  const FrozenBucket again{.schedule = 2, .number = 1};
  step(again, tensor_);
  step(again, tensor_);
  expect(4, 2, 0);
  EXPECT_EQ(double_graphs(), 2U);
}

TEST_F(NcclGraphsTest, DestroyAGraphBehindItsLastRun) {
  for (int i = 0; i < 2; ++i) step(kFirst, tensor_);
  double_hang(static_cast<CUstream>(queue_));
  enqueue(kFirst, tensor_, shape_of(tensor_));
  enqueue(kFirst, other_, shape_of(other_));
  enqueue(kFirst, other_, shape_of(other_));
  EXPECT_EQ(double_graphs(), 4U) << "the stream has not run the first ones yet";
  double_release();
  ASSERT_TRUE(finish(*gpu_, queue_).is_ok());
  step(kFirst, other_);
  EXPECT_EQ(double_graphs(), 2U);
}

TEST_F(NcclGraphsTest, AreBoundedInNumber) {
  for (std::uint32_t number = 1; number <= NcclGraphs::kMostBuckets + 10; ++number) {
    for (int i = 0; i < 2; ++i) step({.schedule = 1, .number = number}, tensor_);
  }
  expect(NcclGraphs::kMostBuckets * 2, 0, 0);
}

}  // namespace
}  // namespace hvd
