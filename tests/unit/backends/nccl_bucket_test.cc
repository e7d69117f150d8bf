// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/nccl_bucket.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>

#include "doubles/nccl/double_nccl.h"
#include "unit/device/cuda_gpus.h"

namespace hvd {
namespace {

constexpr std::size_t operator""_MiB(unsigned long long count) { return count << 20; }

/// The double, where the environment of the tests names it.
std::string named_library() {
  return Environment::of_process().get("HVD_NCCL_LIBRARY").value_or("");
}

Deadline soon() { return Deadline::after(std::chrono::seconds(30)); }

/// A rank's communicator, with a bucket.
class Owner {
 public:
  Owner(Gpu& gpu, StreamHandle stream, const ncclUniqueId& id, int rank, int size)
      : current_(gpu),
        library_(NcclLibrary::open(named_library()).value()),
        communicator_(library_, gpu),
        bucket_(std::in_place, communicator_, NcclRegistration::kWindows),
        stream_(stream) {
    EXPECT_TRUE(communicator_.begin(id, rank, size).is_ok());
    settle();
  }
  NcclBucket& bucket() { return *bucket_; }
  /// A batch that needs so much, once the device is done with what the bucket was before.
  void take(std::size_t bytes) {
    const Deadline deadline = soon();
    bool is_taken = try_to_take(bytes);
    while (!is_taken && !deadline.has_passed()) {
      std::this_thread::yield();
      is_taken = try_to_take(bytes);
    }
    ASSERT_TRUE(is_taken) << "what it was before is still in use";
  }
  bool try_to_take(std::size_t bytes) {
    const auto taken = bucket_->reserve(bytes, stream_);
    EXPECT_TRUE(taken.is_ok()) << taken.status().message();
    if (taken.is_ok() && taken.value()) settle();
    return taken.is_ok() && taken.value();
  }
  void end() { bucket_.reset(); }

 private:
  void settle() {
    const Deadline deadline = soon();
    auto settled = communicator_.is_settled();
    while (settled.is_ok() && !settled.value() && !deadline.has_passed()) {
      std::this_thread::yield();
      settled = communicator_.is_settled();
    }
    EXPECT_TRUE(settled.is_ok()) << settled.status().message();
    EXPECT_TRUE(settled.is_ok() && settled.value());
  }

  CurrentGpu current_;
  NcclLibrary library_;
  NcclCommunicator communicator_;
  std::optional<NcclBucket> bucket_;
  StreamHandle stream_;
};

class NcclBucketTest : public CudaGpus {
 protected:
  void SetUp() override {
    CudaGpus::SetUp();
    double_nccl_reset();
    before_ = double_allocated(0);
  }
  void TearDown() override {
    EXPECT_EQ(double_nccl_complaints(), 0) << double_nccl_last_complaint();
    const Deadline deadline = soon();  // Memory is freed on a thread of its own.
    while (double_nccl_alive() != 0 && !deadline.has_passed()) std::this_thread::yield();
    EXPECT_EQ(double_nccl_alive(), 0) << "communicators, windows or memory are left";
    double_nccl_reset();
    CudaGpus::TearDown();
  }
  static ncclUniqueId new_id() {
    ncclUniqueId id;
    const auto library = NcclLibrary::open(named_library());
    EXPECT_EQ(library.value().calls().get_unique_id(&id), ncclSuccess);
    return id;
  }
  /// Of the first GPU, by buckets.
  std::size_t allocated() const { return double_allocated(0) - before_; }
  /// Memory is freed on a thread of its own.
  void expect_soon(std::size_t bytes) const {
    const Deadline deadline = soon();
    while (allocated() != bytes && !deadline.has_passed()) std::this_thread::yield();
    EXPECT_EQ(allocated(), bytes);
  }

 private:
  std::size_t before_ = 0;
};

TEST(NcclLibrary, IsTheOneThatTheProgramIsLinkedWith) {
  const auto library = NcclLibrary::open("/nonexistent/libnccl.so.2");
  ASSERT_TRUE(library.is_ok()) << library.status().message();
  EXPECT_EQ(library.value().calls().get_version, &ncclGetVersion);
  EXPECT_EQ(library.value().path(), loaded_nccl_path());
  EXPECT_NE(library.value().describe().find("the process had loaded it"), std::string::npos);
}

TEST_F(NcclBucketTest, DoublesWhileItIsSmallAndGrowsByLittleThen) {
  EXPECT_EQ(NcclBucket::capacity_for(1), 4_MiB);
  EXPECT_EQ(NcclBucket::capacity_for(5_MiB), 8_MiB);
  EXPECT_EQ(NcclBucket::capacity_for(33_MiB), 64_MiB);
  EXPECT_EQ(NcclBucket::capacity_for(64_MiB), 64_MiB);
  EXPECT_EQ(NcclBucket::capacity_for(64_MiB + 1), 80_MiB);
  EXPECT_EQ(NcclBucket::capacity_for(600_MiB), 608_MiB);
}

TEST_F(NcclBucketTest, GivesBackWhatItWasAfterSomeBatches) {
  Owner owner(*gpu_, stream(), new_id(), 0, 1);
  owner.take(0);
  EXPECT_EQ(allocated(), 0U) << "nothing was needed";
  owner.take(1_MiB);
  owner.take(600_MiB);
  EXPECT_EQ(allocated(), 612_MiB);
  for (int batch = 0; batch < NcclBucket::kBatchesUntilFree; ++batch) {
    owner.take(batch % 2 == 0 ? 0 : 600_MiB);
    EXPECT_EQ(double_nccl_calls("ncclCommWindowDeregister"), 0);
  }
  owner.take(0);
  EXPECT_EQ(double_nccl_calls("ncclCommWindowDeregister"), 1);
  expect_soon(608_MiB);
  owner.end();
  expect_soon(0);
}

TEST_F(NcclBucketTest, HoldsNoMoreThanItIsAndWasWhenItGrowsAgainAndAgain) {
  Owner owner(*gpu_, stream(), new_id(), 0, 1);
  for (std::size_t size = 64_MiB; size <= 320_MiB; size += 16_MiB) {
    owner.take(size);
    if (size > 64_MiB) expect_soon(size + size - 16_MiB);
  }
  EXPECT_EQ(double_nccl_calls("ncclMemAlloc"), 17);
}

TEST_F(NcclBucketTest, KeepsWhatItWasWhileTheDeviceIsBehind) {
  const StreamHandle queue = stream();
  Owner owner(*gpu_, queue, new_id(), 0, 1);
  owner.take(1_MiB);
  double_hang(static_cast<CUstream>(queue));
  owner.take(5_MiB);
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(owner.try_to_take(9_MiB));
  EXPECT_EQ(allocated(), 12_MiB);
  double_release();
  ASSERT_TRUE(finish(*gpu_, queue).is_ok());
  owner.take(9_MiB);
  expect_soon(24_MiB);
}

TEST_F(NcclBucketTest, FindsOnePlaceForItsWindowsOnAllRanksWhicheverDeviceIsBehind) {
  const ncclUniqueId id = new_id();
  const StreamHandle fast = stream();
  const StreamHandle slow = stream(*other_gpu_);
  std::atomic<int> waits{0};
  const auto run = [&](int rank) {
    Owner owner(rank == 0 ? *gpu_ : *other_gpu_, rank == 0 ? fast : slow, id, rank, 2);
    const Deadline deadline = soon();
    // Where one rank had given back what it was and the other had not, the last would lie in a gap
    // on one of them.
    for (const std::size_t size : {64_MiB, 80_MiB, 96_MiB, 112_MiB}) {
      while (!owner.try_to_take(size) && !deadline.has_passed()) {
        if (++waits == 3) double_release();
      }
    }
  };
  double_hang(static_cast<CUstream>(slow));
  std::thread other([&] { run(1); });
  run(0);
  other.join();
  EXPECT_GE(waits.load(), 3) << "the slow rank had nothing to wait for";
}

}  // namespace
}  // namespace hvd
