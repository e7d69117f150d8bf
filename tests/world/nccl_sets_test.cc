// SPDX-License-Identifier: Apache-2.0
// Process sets that overlap, on GPUs that have room for one operation of NCCL at a time: what
// reaches the devices in opposite orders would wait for ever.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

#include "world/nccl_world.h"

namespace hvd {
namespace {

/// A tensor of one process set on one rank, and the stream that makes it.
struct Share {
  explicit Share(Gpu& gpu) : stream(gpu), tensor(gpu, std::vector<float>(20, 1.0F)) {}
  /// Its input is not made before double_release().
  void hold_back() const { double_hang(static_cast<CUstream>(stream.get())); }
  Request request(int rank, int set) const {
    Request request = gpu_request("x", rank, tensor, stream.get());
    request.process_set = set;
    return request;
  }

  OwnStream stream;
  DeviceTensor<float> tensor;
};

/// By process set, of one rank.
using Shares = std::map<int, std::unique_ptr<Share>>;

Shares make_shares(int rank, const std::map<int, std::vector<int>>& sets) {
  Shares shares;
  for (const auto& [set, ranks] : sets) {
    if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) continue;
    shares[set] = std::make_unique<Share>(GpuWorld::gpu(rank));
  }
  return shares;
}

/// Submits them in the order of `shares`, and waits until streams hold all of them.
std::map<int, Engine::Handle> enqueue(int rank, Engine& engine, const Shares& shares) {
  std::map<int, Engine::Handle> handles;
  for (const auto& [set, share] : shares) {
    handles[set] = engine.submit(share->request(rank, set)).value();
  }
  for (const auto& [set, share] : shares) {
    const Status status = engine.wait_stream(handles[set], share->stream.get(), soon());
    EXPECT_TRUE(status.is_ok()) << status.message();
  }
  return handles;
}

void expect_done(Engine& engine, Engine::Handle handle) {
  const Status status = engine.wait(handle, soon());
  EXPECT_TRUE(status.is_ok()) << status.message();
  engine.release(handle);
}

/// Until all ranks have come.
void meet(Engine& engine) {
  Request barrier;
  barrier.name = "meet";
  barrier.operation = Barrier{};
  EXPECT_TRUE(run_request(engine, std::move(barrier)).is_ok());
}

/// Makes the communicators, one after the other.
void connect(int rank, Engine& engine, const std::map<int, std::vector<int>>& sets) {
  const Shares shares = make_shares(rank, sets);
  for (const auto& [set, ranks] : sets) {
    if (shares.contains(set)) {
      expect_done(engine, engine.submit(shares.at(set)->request(rank, set)).value());
    }
    meet(engine);
  }
}

class NcclSets : public NcclWorld {
 protected:
  void SetUp() override {
    NcclWorld::SetUp();
    double_nccl_one_at_a_time(1);
  }
  void TearDown() override {
    unsetenv("NCCL_LAUNCH_ORDER_IMPLICIT");
    NcclWorld::TearDown();
  }
};

TEST_F(NcclSets, WithTwoRanksInCommonDoNotLockEachOtherOut) {
  NcclRanks world({3});
  world.run([](int rank, Engine& engine) {
    const int pair = engine.add_process_set({0, 1}, soon()).value();
    const std::map<int, std::vector<int>> sets = {{0, {0, 1, 2}}, {pair, {0, 1}}};
    connect(rank, engine, sets);
    const Shares shares = make_shares(rank, sets);
    // The device of rank 0 could begin with the pair, that of rank 1 with all.
    if (rank == 0) shares.at(0)->hold_back();
    if (rank == 1) shares.at(pair)->hold_back();
    const auto handles = enqueue(rank, engine, shares);
    meet(engine);
    double_release();
    for (const auto& [set, handle] : handles) expect_done(engine, handle);
  });
}

TEST_F(NcclSets, ThatMakeARingDoNotLockEachOtherOut) {
  NcclRanks world({3});
  world.run([](int rank, Engine& engine) {
    std::map<int, std::vector<int>> sets;
    for (const auto& ranks : std::vector<std::vector<int>>{{0, 1}, {1, 2}, {0, 2}}) {
      sets[engine.add_process_set(ranks, soon()).value()] = ranks;
    }
    connect(rank, engine, sets);
    const Shares shares = make_shares(rank, sets);
    // Each device could begin with another set: rank 0 with {0, 1}, 1 with {1, 2}, 2 with {0, 2}.
    for (const auto& [set, share] : shares) {
      if (set != rank + 1) share->hold_back();
    }
    const auto handles = enqueue(rank, engine, shares);
    meet(engine);
    double_release();
    for (const auto& [set, handle] : handles) expect_done(engine, handle);
  });
}

TEST_F(NcclSets, InAnyOrderAndAtAnyPaceComeToAnEnd) {
  double_delay(9, 200);
  double_nccl_delay(8, 200);
  NcclRanks world({2, 2});
  world.run([](int rank, Engine& engine) {
    std::map<int, std::vector<int>> sets = {{0, {0, 1, 2, 3}}};
    for (const auto& ranks :
         std::vector<std::vector<int>>{{0, 1}, {2, 3}, {0, 2}, {1, 3}, {0, 1, 2}, {1, 2, 3}}) {
      sets[engine.add_process_set(ranks, soon()).value()] = ranks;
    }
    for (int step = 0; step < 10; ++step) {
      const Shares shares = make_shares(rank, sets);
      std::vector<Engine::Handle> handles;
      const auto submit = [&](const auto& entry) {
        handles.push_back(engine.submit(entry.second->request(rank, entry.first)).value());
      };
      if ((rank + step) % 2 == 0) {
        std::for_each(shares.begin(), shares.end(), submit);
      } else {
        std::for_each(shares.rbegin(), shares.rend(), submit);
      }
      for (const Engine::Handle handle : handles) expect_done(engine, handle);
      for (const auto& [set, share] : shares) {
        EXPECT_EQ(share->tensor.values()[19], static_cast<float>(sets[set].size()));
      }
    }
  });
}

TEST_F(NcclSets, ThatShareOneRankOnlyDoNotWaitForEachOther) {
  double_nccl_one_at_a_time(0);
  NcclRanks world({3});
  world.run([](int rank, Engine& engine) {
    const int left = engine.add_process_set({0, 1}, soon()).value();
    const int right = engine.add_process_set({0, 2}, soon()).value();
    const std::map<int, std::vector<int>> sets = {{left, {0, 1}}, {right, {0, 2}}};
    connect(rank, engine, sets);
    const Shares shares = make_shares(rank, sets);
    if (rank == 1) shares.at(left)->hold_back();
    std::map<int, Engine::Handle> handles;
    for (const auto& [set, share] : shares) {
      handles[set] = engine.submit(share->request(rank, set)).value();
    }
    // The earlier one is in the stream of rank 0, and waits for the device of rank 1.
    if (rank < 2) {
      const StreamHandle stream = shares.at(left)->stream.get();
      EXPECT_TRUE(engine.wait_stream(handles.at(left), stream, soon()).is_ok());
    }
    if (rank != 1) expect_done(engine, handles.at(right));
    meet(engine);
    double_release();
    if (rank < 2) expect_done(engine, handles.at(left));
  });
}

TEST_F(NcclSets, MayHaveASecondGpuOfTheirRanks) {
  ASSERT_GE(gpus_of_double().count().value(), 5);
  NcclRanks world({3});
  world.run([](int rank, Engine& engine) {
    const int pair = engine.add_process_set({0, 1}, soon()).value();
    const int second = rank < 2 ? 3 + rank : rank;
    const DeviceTensor<float> here(GpuWorld::gpu(rank), std::vector<float>(20, 1.0F));
    const DeviceTensor<float> there(GpuWorld::gpu(second), std::vector<float>(20, 1.0F));
    for (int step = 0; step < 3; ++step) {
      std::vector<Engine::Handle> handles{
          engine.submit(gpu_request("x", rank, here, nullptr)).value()};
      if (rank < 2) {
        Request request = gpu_request("x", second, there, nullptr);
        request.process_set = pair;
        handles.push_back(engine.submit(std::move(request)).value());
      }
      for (const Engine::Handle handle : handles) expect_done(engine, handle);
    }
    EXPECT_EQ(here.values()[19], 27.0F);
    EXPECT_EQ(there.values()[19], rank < 2 ? 8.0F : 1.0F);
  });
}

TEST_F(NcclSets, AreLeftToNcclWhereItKeepsTheOrderOfLaunches) {
  double_nccl_one_at_a_time(0);
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 1);
  NcclRanks world({3});
  world.run([](int rank, Engine& engine) {
    const int pair = engine.add_process_set({0, 1}, soon()).value();
    const std::map<int, std::vector<int>> sets = {{0, {0, 1, 2}}, {pair, {0, 1}}};
    connect(rank, engine, sets);
    const Shares shares = make_shares(rank, sets);
    if (rank == 2) shares.at(0)->hold_back();
    const auto all = engine.submit(shares.at(0)->request(rank, 0)).value();
    EXPECT_TRUE(engine.wait_stream(all, shares.at(0)->stream.get(), soon()).is_ok());
    // Its kernel is behind that of all ranks, and both fit.
    if (rank < 2) expect_done(engine, engine.submit(shares.at(pair)->request(rank, pair)).value());
    meet(engine);
    double_release();
    expect_done(engine, all);
  });
}

}  // namespace
}  // namespace hvd
