// SPDX-License-Identifier: Apache-2.0
// Ranks that run out of data before the others.
#include <gmock/gmock.h>

#include <atomic>
#include <string>

#include "world/world.h"

namespace hvd {
namespace {

using testing::HasSubstr;

class JoinWorld : public testing::TestWithParam<std::vector<int>> {};

Request typed_request(std::string name, DataType dtype, void* data, std::size_t count,
                      Allreduce operation) {
  Request request;
  request.name = std::move(name);
  request.operation = operation;
  request.tensors.push_back({data, data, dtype, {static_cast<std::int64_t>(count)}, 0});
  return request;
}

/// Rank r submits r + 1 uses of "x" and then joins: the sums shrink from use to use.
void uneven_epoch(World& world, bool active, std::size_t count) {
  world.run([&](int rank, Engine& engine) {
    for (int use = 0; use <= rank; ++use) {
      std::vector<float> sum(count, static_cast<float>(rank + 1));
      std::vector<float> average = sum;
      ASSERT_TRUE(run_request(engine, allreduce_request("x", sum)).is_ok());
      Request averaged = allreduce_request("", average, Allreduce{ReduceOp::kAverage});
      ASSERT_TRUE(run_request(engine, averaged).is_ok());
      float expected = 0;
      for (int r = use; r < world.size(); ++r) expected += static_cast<float>(r + 1);
      EXPECT_EQ(sum.front(), expected) << "use " << use;
      EXPECT_EQ(sum.back(), expected) << "use " << use;
      const auto divisor = static_cast<float>(active ? world.size() - use : world.size());
      EXPECT_FLOAT_EQ(average.back(), expected / divisor) << "use " << use;
    }
    const auto last = engine.join(0, active, soon());
    ASSERT_TRUE(last.is_ok()) << last.status().message();
    EXPECT_EQ(last.value(), world.size() - 1);
  });
}

TEST_P(JoinWorld, TheOthersGoOnAndAllLearnWhoJoinedLast) {
  World world(GetParam());
  for (const std::size_t count : {std::size_t{1}, std::size_t{3'000}, std::size_t{200'000}}) {
    uneven_epoch(world, false, count);
    uneven_epoch(world, true, count);
  }
}

TEST_P(JoinWorld, ARankJoinsForNamesThatItHasNeverSeen) {
  World world(GetParam());
  const int last = world.size() - 1;
  world.run([&](int rank, Engine& engine) {
    if (rank == last) {
      for (int i = 0; i < 3; ++i) {
        std::vector<float> values(10, 2.0F);
        ASSERT_TRUE(run_request(engine, allreduce_request("new", values)).is_ok());
        EXPECT_EQ(values.back(), 2.0F);
      }
    }
    EXPECT_EQ(engine.join(0, false, soon()).value(), last);
    std::vector<float> values(10, 1.0F);
    EXPECT_TRUE(run_request(engine, allreduce_request("new", values)).is_ok());
    EXPECT_EQ(values.back(), static_cast<float>(world.size())) << "all is as before";
  });
}

TEST_P(JoinWorld, WhatARankAddsChangesNothing) {
  World world(GetParam());
  const int last = world.size() - 1;
  world.run([&](int rank, Engine& engine) {
    if (rank == last) {
      const auto check = [&]<typename T>(DataType dtype, ReduceOp op, T value) {
        std::vector<T> values(100, value);
        const Status status =
            run_request(engine, typed_request(format_text("{}.{}", name_of(dtype), name_of(op)),
                                              dtype, values.data(), values.size(), Allreduce{op}));
        ASSERT_TRUE(status.is_ok()) << status.message();
        EXPECT_EQ(values, std::vector<T>(100, value)) << name_of(dtype) << ' ' << name_of(op);
      };
      for (const ReduceOp op :
           {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
        check(DataType::kFloat32, op, 3.5F);
        check(DataType::kFloat64, op, -2.25);
        check(DataType::kInt8, op, std::int8_t{-7});
        check(DataType::kUint8, op, std::uint8_t{200});
        check(DataType::kInt64, op, std::int64_t{-5'000'000'000});
        check(DataType::kFloat16, op, std::uint16_t{0x4200});
        check(DataType::kBfloat16, op, std::uint16_t{0xC040});
      }
      for (const ReduceOp op : {ReduceOp::kBitAnd, ReduceOp::kBitOr, ReduceOp::kBitXor}) {
        check(DataType::kUint32, op, std::uint32_t{0xF0F0A5A5});
      }
      for (int value : {49, 98, -49, 1, 7}) {
        // An average over the one rank that is left.
        std::vector<std::int32_t> values(3, value);
        Request request = typed_request(format_text("average.{}", value), DataType::kInt32,
                                        values.data(), values.size(), {ReduceOp::kAverage});
        ASSERT_TRUE(run_request(engine, request).is_ok());
        EXPECT_EQ(values.back(), value);
      }
    }
    EXPECT_EQ(engine.join(0, true, soon()).value(), last);
  });
}

TEST_P(JoinWorld, OtherOperationsAreAnErrorOnEveryActiveRank) {
  World world(GetParam());
  world.run([&](int rank, Engine& engine) {
    if (rank != 1) {
      std::vector<float> values(4, 1.0F);
      const auto refused = [&](Operation operation, Code code, const char* word) {
        Request request = allreduce_request(std::string(kind_name(operation)), values);
        request.operation = operation;
        if (!kind_of(operation).has_tensors) request.tensors.clear();
        const Status status = run_request(engine, request);
        EXPECT_EQ(status.code(), code) << status.message();
        EXPECT_THAT(status.message(), HasSubstr(word));
        EXPECT_THAT(status.message(), HasSubstr("rank 1 has joined process set 0"));
      };
      refused(Broadcast{0}, Code::kInvalidArgument, "only allreduce goes on");
      refused(Allgather{}, Code::kInvalidArgument, "only allreduce goes on");
      refused(Barrier{}, Code::kInvalidArgument, "only allreduce goes on");
      refused(Allreduce{ReduceOp::kProduct, 0.5, 1}, Code::kUnsupported, "use sum or average");
      EXPECT_TRUE(run_request(engine, allreduce_request("fine", values)).is_ok());
    }
    EXPECT_TRUE(engine.join(0, false, soon()).is_ok());
  });
}

TEST_P(JoinWorld, ASetJoinsByItself) {
  World world(GetParam());
  if (world.size() < 3) return;
  world.run([&](int rank, Engine& engine) {
    const int id = engine.add_process_set({1, 2}, soon()).value();
    std::vector<float> values(10, 1.0F);
    Request request = allreduce_request("x", values);
    request.process_set = id;
    if (rank == 2) {
      EXPECT_TRUE(run_request(engine, request).is_ok());
      EXPECT_EQ(values.back(), 1.0F);
    }
    if (rank == 1 || rank == 2) {
      EXPECT_EQ(engine.join(id, false, soon()).value(), 2);
    } else {
      EXPECT_EQ(engine.join(id, false, soon()).status().code(), Code::kInvalidArgument);
    }
    std::vector<float> all(10, 1.0F);
    EXPECT_TRUE(run_request(engine, allreduce_request("x", all)).is_ok());
    EXPECT_EQ(all.back(), static_cast<float>(world.size()));
    EXPECT_TRUE(engine.remove_process_set(id, soon()).is_ok());
  });
}

TEST_P(JoinWorld, RanksThatDisagreeAboutTheAverageGetOneErrorAndGoOn) {
  World world(GetParam());
  world.run([&](int rank, Engine& engine) {
    const auto joined = engine.join(0, rank == 1, soon());
    EXPECT_EQ(joined.status().code(), Code::kMismatch) << joined.status().message();
    EXPECT_THAT(joined.status().message(), HasSubstr("rank"));
    std::vector<float> values(10, 1.0F);
    EXPECT_TRUE(run_request(engine, allreduce_request("x", values)).is_ok());
    EXPECT_EQ(values.back(), static_cast<float>(world.size()));
    EXPECT_TRUE(engine.join(0, false, soon()).is_ok());
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, JoinWorld,
                         testing::Values(std::vector<int>{2}, std::vector<int>{4},
                                         std::vector<int>{1, 1, 1}, std::vector<int>{3, 1}));

TEST(Join, AWaitThatEndsEarlyMayGoOnAndNothingElseComesBetween) {
  World world({2});
  std::atomic<bool> may_join{false};
  world.run([&](int rank, Engine& engine) {
    const Deadline deadline = soon();
    while (rank == 1 && !may_join.load() && !deadline.has_passed()) std::this_thread::yield();
    if (rank == 0) {
      const auto early = engine.join(0, false, Deadline::after(std::chrono::milliseconds(30)));
      EXPECT_EQ(early.status().code(), Code::kTimeout);
      std::vector<float> values(1);
      const Status status = run_request(engine, allreduce_request("y", values));
      EXPECT_EQ(status.code(), Code::kInvalidArgument);
      EXPECT_THAT(status.message(), HasSubstr("has joined process set 0"));
      EXPECT_EQ(engine.join(0, true, soon()).status().code(), Code::kInvalidArgument);
      may_join.store(true);
    }
    EXPECT_TRUE(engine.join(0, false, soon()).is_ok());
  });
}

TEST(Join, ADeathIsALossForThoseWhoHaveJoined) {
  World world({2, 1});
  world.run([&](int rank, Engine& engine) {
    if (rank == 2) {
      engine.abort("the test says so");
      return;
    }
    EXPECT_EQ(engine.join(0, false, soon()).status().code(), Code::kPeerLost);
  });
}

}  // namespace
}  // namespace hvd
