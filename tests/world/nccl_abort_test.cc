// SPDX-License-Identifier: Apache-2.0
// A rank is lost while devices or NCCL do not come to an end: callers hear of it at once, and what
// is left on the device is freed when it ends.
#include <gmock/gmock.h>
#include <nccl.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "world/nccl_world.h"

namespace hvd {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class NcclAbort : public testing::Test {
 protected:
  void SetUp() override {
    double_reset();
    double_nccl_reset();
    double_nccl_silent_deaths(1);
    streams_ = double_streams();
    for (int rank = 0; rank < 3; ++rank) {
      tensors_.push_back(gpu_tensors(rank, {5, 100'000}));
      others_.push_back(gpu_tensors(rank, {5, 100'000}));
    }
  }
  void TearDown() override {
    double_release();
    double_nccl_reset();
    EXPECT_TRUE(comes([this] { return is_all_freed(); }))
        << double_nccl_alive() << " things of NCCL's, " << double_streams() << " streams";
    works_again();
    double_reset();
  }

  static bool comes(const std::function<bool()>& condition) {
    for (const Deadline deadline = soon(); !condition(); sched_yield()) {
      if (deadline.has_passed()) return false;
    }
    return true;
  }
  bool is_all_freed() const { return double_nccl_alive() == 0 && double_streams() == streams_; }

  /// Another job on the same GPUs.
  void works_again() {
    NcclRanks world({2});
    world.run([this](int rank, Engine& engine) {
      const auto& tensors = others_[static_cast<std::size_t>(rank)];
      const Status status = run_request(engine, gpu_request("again", rank, tensors));
      EXPECT_TRUE(status.is_ok()) << status.message();
    });
  }

  /// What ranks 0 and 1 of three are told of an allreduce that is in the streams of all, as rank 2
  /// ends. The request of rank r is in stream `streams[r]`, `and_then` is called with each error.
  void lose_rank_2(std::array<StreamHandle, 3> streams,
                   const std::function<void(int rank, const Status&)>& and_then) {
    NcclRanks world({1, 1, 1});
    std::atomic<int> enqueued{0};
    world.run([&](int rank, Engine& engine) {
      const auto index = static_cast<std::size_t>(rank);
      const auto begin = [&](const std::string& name, StreamHandle stream) {
        Request request = gpu_request(name, rank, tensors_[index]);
        request.stream = stream;
        return engine.submit(std::move(request));
      };
      const auto first = begin("first", nullptr);
      ASSERT_TRUE(first.is_ok()) << first.status().message();
      ASSERT_TRUE(engine.wait(first.value(), soon()).is_ok());
      if (rank == 2) double_nccl_hang(2, 1);
      const auto second = begin("second", streams[index]);
      ASSERT_TRUE(second.is_ok()) << second.status().message();
      EXPECT_TRUE(engine.wait_stream(second.value(), streams[index], soon()).is_ok());
      enqueued.fetch_add(1);
      if (rank == 2) {
        EXPECT_TRUE(comes([&] { return enqueued.load() == 3; }));
        world.kill(rank);
        return;
      }
      const Status status = engine.wait(second.value(), soon());
      EXPECT_EQ(status.code(), Code::kPeerLost);
      EXPECT_THAT(status.message(), HasSubstr("rank 2 on host "));
      and_then(rank, status);
    });
  }

  std::size_t streams_ = 0;
  /// By rank. The device may write there until all is freed, for which a driver waits.
  std::vector<GpuTensors> tensors_;
  std::vector<GpuTensors> others_;
};

/// The error of a rank whose device was not done in time.
void expect_unsettled(int rank, const Status& status) {
  EXPECT_THAT(status.message(), AllOf(HasSubstr("GPU " + std::to_string(rank) + " of rank " +
                                                std::to_string(rank) + " on host "),
                                      HasSubstr("may still write to the tensors of this operation"),
                                      Not(HasSubstr("hvd_alloc"))));
}

TEST_F(NcclAbort, ThatEndsAtOnceLeavesNoDoubtAboutTensors) {
  lose_rank_2({}, [](int, const Status& status) {
    EXPECT_THAT(status.message(), Not(HasSubstr("may still write")));
  });
}

/// Streams of callers on the GPUs of ranks 0 and 1. At the end all that hangs goes on.
class OwnStreams {
 public:
  /// `are_busy`: they do not go on before.
  explicit OwnStreams(bool are_busy) {
    for (int rank = 0; rank < 2; ++rank) {
      const StreamHandle stream = gpu(rank).create_stream().value();
      if (are_busy) double_hang(static_cast<CUstream>(stream));
      streams_[static_cast<std::size_t>(rank)] = stream;
    }
  }
  OwnStreams(const OwnStreams&) = delete;
  OwnStreams& operator=(const OwnStreams&) = delete;
  ~OwnStreams() {
    double_release();
    double_nccl_release();
    for (int rank = 0; rank < 2; ++rank) {
      gpu(rank).destroy_stream(streams_[static_cast<std::size_t>(rank)]);
    }
  }
  const std::array<StreamHandle, 3>& all() const { return streams_; }

 private:
  static Gpu& gpu(int rank) { return GpuWorld::gpu(rank); }
  std::array<StreamHandle, 3> streams_{};
};

TEST_F(NcclAbort, BehindWorkThatIsQueuedHoldsUpNoCaller) {
  const OwnStreams streams(true);
  // Nothing ends on these devices before the test is over: all that is told is told before.
  lose_rank_2(streams.all(), expect_unsettled);
  EXPECT_GT(double_nccl_alive(), 0) << "nothing was left";
}

TEST_F(NcclAbort, ThatHangsForAWhileFreesAllWhenItEnds) {
  for (const int rank : {0, 1}) double_nccl_block("ncclCommAbort", 1, 3000, rank);
  lose_rank_2({}, expect_unsettled);
  EXPECT_TRUE(comes([this] { return is_all_freed(); })) << "without anyone's help";
}

TEST_F(NcclAbort, ThatNeverEndsLetsAnotherJobBegin) {
  // The default stream would wait for the abort, too, as the callers' streams do.
  const OwnStreams streams(false);
  double_nccl_block("ncclCommAbort", 1, 0, 0);
  lose_rank_2(streams.all(), [](int rank, const Status& status) {
    if (rank == 0) expect_unsettled(rank, status);
  });
  EXPECT_GT(double_nccl_alive(), 0) << "the abort has ended";
  works_again();
  EXPECT_GT(double_nccl_alive(), 0) << "the abort has ended";
}

TEST_F(NcclAbort, OfOneSetHasItsOwnTime) {
  const OwnStreams streams(true);
  NcclRanks world({1, 1, 1});
  std::atomic<int> ready{0};
  world.run([&](int rank, Engine& engine) {
    const auto index = static_cast<std::size_t>(rank);
    const auto pair = engine.add_process_set({0, 1}, soon());
    ASSERT_TRUE(pair.is_ok()) << pair.status().message();
    const auto begin = [&](int set, StreamHandle stream) {
      Request request = gpu_request("sum", rank, tensors_[index]);
      request.process_set = set;
      request.stream = stream;
      const auto handle = engine.submit(std::move(request));
      EXPECT_TRUE(handle.is_ok()) << handle.status().message();
      EXPECT_TRUE(engine.wait_stream(handle.value(), stream, soon()).is_ok());
      return handle.value();
    };
    if (rank == 2) {
      begin(0, nullptr);
      EXPECT_TRUE(comes([&] { return ready.load() == 2; }));
      world.kill(rank);
      return;
    }
    double_nccl_hang(rank, 1);
    const auto of_pair = begin(pair.value(), nullptr);
    const auto of_all = begin(0, streams.all()[index]);
    ready.fetch_add(1);
    // The one waits for the caller's stream, the other one's kernel ends with the abort.
    const Status told_all = engine.wait(of_all, soon());
    expect_unsettled(rank, told_all);
    const Status told_pair = engine.wait(of_pair, soon());
    EXPECT_EQ(told_pair.code(), Code::kPeerLost);
    EXPECT_THAT(told_pair.message(), Not(HasSubstr("may still write")));
  });
}

}  // namespace
}  // namespace hvd
