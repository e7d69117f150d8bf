// SPDX-License-Identifier: Apache-2.0
// Allreduces of GPU memory whose buckets are frozen, and the ways of a program not to fit them.
#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>

#include "doubles/cuda/double_cuda.h"
#include "world/gpu_world.h"

namespace hvd {
namespace {

using testing::Each;

/// A rank with one stream and gradients named by letters, which count their steps.
class Trainer {
 public:
  Trainer(int rank, Engine& engine) : rank_(rank), engine_(engine), stream_(GpuWorld::gpu(rank)) {}
  ~Trainer() {
    for (const auto& [name, handle] : handles_) engine_.release(handle);
  }

  void submit(char name) {
    auto& tensor = tensors_[name];
    if (tensor == nullptr) tensor = std::make_unique<Tensor>(GpuWorld::gpu(rank_), kCount);
    tensor->fill(std::vector<float>(kCount, static_cast<float>(rank_ + 1)), stream_.get());
    const auto handle =
        engine_.submit(gpu_request(std::string(1, name), rank_, *tensor, stream_.get()));
    ASSERT_TRUE(handle.is_ok()) << handle.status().message();
    handles_[name] = handle.value();
  }
  /// The sum over both ranks.
  void wait(char name) {
    const Status status = engine_.wait(handles_.at(name), soon());
    ASSERT_TRUE(status.is_ok()) << status.message();
    finish(name);
  }
  /// The same without a caller that waits.
  void poll(char name) {
    const Deadline deadline = soon();
    while (!engine_.poll(handles_.at(name)).value()) {
      ASSERT_FALSE(deadline.has_passed());
      std::this_thread::yield();
    }
    finish(name);
  }
  void wait_for_all() {
    while (!handles_.empty()) wait(handles_.begin()->first);
  }
  void step(const std::string& names) {
    for (const char name : names) submit(name);
    wait_for_all();
  }
  /// Steps after which buckets are frozen: a, b and c together.
  void freeze() {
    for (int i = 0; i < 3; ++i) step("abc");
  }

 private:
  using Tensor = DeviceTensor<float>;
  static constexpr std::size_t kCount = 100;

  void finish(char name) {
    EXPECT_THAT(tensors_.at(name)->values(), Each(3.0F)) << name;
    engine_.release(handles_.at(name));
    handles_.erase(name);
  }

  int rank_;
  Engine& engine_;
  OwnStream stream_;
  std::map<char, std::unique_ptr<Tensor>> tensors_;
  std::map<char, Engine::Handle> handles_;
};

/// In one node, and in two.
class GpuBuckets : public testing::TestWithParam<std::vector<int>> {
 protected:
  void SetUp() override { double_reset(); }
  void TearDown() override { double_reset(); }
  /// Runs `programs[rank]` once buckets are frozen, and two more steps.
  void run(const std::array<std::function<void(Trainer&)>, 2>& programs, std::uint64_t thaws) {
    GpuWorld world(GetParam());
    std::atomic<std::uint64_t> frozen{0};
    world.run([&](int rank, Engine& engine) {
      Trainer trainer(rank, engine);
      trainer.freeze();
      frozen.fetch_add(engine.statistics().frozen_buckets);
      programs[static_cast<std::size_t>(rank)](trainer);
      trainer.wait_for_all();
      trainer.step("abc");
      trainer.step("cba");
      EXPECT_GE(engine.statistics().thaws, thaws);
    });
    EXPECT_EQ(frozen.load(), 2u) << "one bucket on each rank";
  }
};
INSTANTIATE_TEST_SUITE_P(Nodes, GpuBuckets,
                         testing::Values(std::vector<int>{2}, std::vector<int>{1, 1}));

TEST_P(GpuBuckets, HoldWhatStepsRepeatInWhateverOrder) {
  GpuWorld world(GetParam());
  world.run([](int rank, Engine& engine) {
    Trainer trainer(rank, engine);
    for (int i = 0; i < 10; ++i) trainer.step((i + rank) % 2 == 0 ? "abc" : "cab");
    EXPECT_GT(engine.statistics().frozen_buckets, 0u);
  });
}

TEST_P(GpuBuckets, OpenWhereOneRankSkipsAGradient) {
  run({[](Trainer& trainer) { trainer.step("ac"); }, [](Trainer& trainer) { trainer.step("ca"); }},
      1);
}

TEST_P(GpuBuckets, OpenWhereARankWaitsInTheMiddle) {
  run({[](Trainer& trainer) {
         trainer.submit('a');
         trainer.wait('a');
         trainer.step("bc");
       },
       [](Trainer& trainer) { trainer.step("abc"); }},
      1);
}

TEST_P(GpuBuckets, OpenWhereARankLooksInInsteadOfWaiting) {
  const auto program = [](Trainer& trainer) {
    trainer.submit('a');
    trainer.poll('a');
    trainer.step("bc");
  };
  run({program, program}, 1);
}

TEST_P(GpuBuckets, OpenForARankThatIsHeldUpOutsideOfHvd) {
  std::atomic<bool> first_is_done{false};
  run({[&](Trainer& trainer) {
         for (const char name : {'a', 'b', 'c'}) trainer.submit(name);
         trainer.wait('a');
         first_is_done.store(true);
       },
       [&](Trainer& trainer) {
         trainer.submit('a');
         const Deadline deadline = soon();
         while (!first_is_done.load() && !deadline.has_passed()) std::this_thread::yield();
         EXPECT_TRUE(first_is_done.load()) << "it waited for the rest of the bucket";
         trainer.step("bc");
       }},
      1);
}

TEST_P(GpuBuckets, OpenForRanksThatJoin) {
  GpuWorld world(GetParam());
  world.run([](int rank, Engine& engine) {
    Trainer trainer(rank, engine);
    trainer.freeze();
    EXPECT_TRUE(engine.join(0, false, soon()).is_ok());
    EXPECT_EQ(engine.statistics().thaws, 1u);
    trainer.step("abc");
  });
}

}  // namespace
}  // namespace hvd
