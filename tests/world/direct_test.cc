// SPDX-License-Identifier: Apache-2.0
// Small requests that ranks bring to direct rounds instead of announcing them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <thread>

#include "captured_errors.h"
#include "world.h"

namespace hvd {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

Request request_of(std::string name, Operation operation, std::vector<float>& values) {
  Request request = allreduce_request(std::move(name), values);
  request.operation = operation;
  return request;
}

Request barrier_request(std::string name) {
  Request request;
  request.name = std::move(name);
  request.operation = Barrier{};
  return request;
}

enum class Spread { kOneNode, kTwoNodes, kNodeEach };

class Direct : public testing::TestWithParam<Spread> {
 protected:
  /// Ranks of each node.
  static std::vector<int> nodes(int ranks) {
    switch (GetParam()) {
      case Spread::kOneNode:
        return {ranks};
      case Spread::kTwoNodes:
        return {ranks / 2, ranks - ranks / 2};
      case Spread::kNodeEach:
        break;
    }
    return std::vector<int>(static_cast<std::size_t>(ranks), 1);
  }
};

std::string name_of(const testing::TestParamInfo<Spread>& info) {
  if (info.param == Spread::kOneNode) return "OneNode";
  return info.param == Spread::kTwoNodes ? "TwoNodes" : "NodeEach";
}

INSTANTIATE_TEST_SUITE_P(Nodes, Direct,
                         testing::Values(Spread::kOneNode, Spread::kTwoNodes, Spread::kNodeEach),
                         name_of);

/// Both ranks know the name by an id from here on.
void learn(Engine& engine, const std::string& name, std::vector<float>& values) {
  for (int use = 0; use < 3; ++use) {
    ASSERT_TRUE(run_request(engine, allreduce_request(name, values)).is_ok());
  }
}

TEST_P(Direct, ALoopIsNegotiatedOnceAndSumsAreRight) {
  World world(nodes(3));
  world.run([](int rank, Engine& engine) {
    for (int step = 0; step < 200; ++step) {
      std::vector<float> values{static_cast<float>(rank + step), 1.5F};
      ASSERT_TRUE(run_request(engine, allreduce_request("t", values)).is_ok());
      EXPECT_EQ(values, (std::vector<float>{static_cast<float>(3 * step + 3), 4.5F}));
    }
    const EngineStatistics statistics = engine.statistics();
    EXPECT_EQ(statistics.requests, 200U);
    EXPECT_GT(statistics.direct, 190U);
    EXPECT_LE(statistics.in_full, 2U);
  });
}

TEST_P(Direct, BroadcastsAndBarriersNeedNoNegotiationEither) {
  World world(nodes(3));
  world.run([](int rank, Engine& engine) {
    for (int step = 0; step < 50; ++step) {
      std::vector<float> values(5, static_cast<float>(10 * rank + step));
      ASSERT_TRUE(run_request(engine, request_of("b", Broadcast{1}, values)).is_ok());
      EXPECT_EQ(values, std::vector<float>(5, static_cast<float>(10 + step)));
      ASSERT_TRUE(run_request(engine, barrier_request("wait")).is_ok());
    }
    EXPECT_GT(engine.statistics().direct, 80U);
  });
}

TEST_P(Direct, RowsOfOtherNumbersComeFromEachRank) {
  World world(nodes(3));
  world.run([](int rank, Engine& engine) {
    for (int step = 0; step < 40; ++step) {
      // Rank r gives r + step % 2 rows of two; in some steps the last one more than a round holds.
      const bool is_large = rank == 2 && step % 8 == 7;
      const auto rows = static_cast<std::size_t>(is_large ? 5000 : rank + step % 2);
      std::vector<float> values(2 * rows, static_cast<float>(10 * rank + step));
      Request request = request_of("gather", Allgather{}, values);
      request.tensors.front().shape = {static_cast<std::int64_t>(rows), 2};
      request.tensors.front().output = nullptr;
      const auto handle = engine.submit(std::move(request));
      ASSERT_TRUE(handle.is_ok()) << handle.status().message();
      ASSERT_TRUE(engine.wait(handle.value(), soon()).is_ok());
      const GatherResult& result = *engine.gathered(handle.value(), 0).value();
      const std::int64_t last = step % 8 == 7 ? 5000 : 2 + step % 2;
      EXPECT_EQ(result.rows, (std::vector<std::int64_t>{step % 2, 1 + step % 2, last}));
      const auto* floats = reinterpret_cast<const float*>(result.begin());
      for (int from = 0, at = 0; from < 3; ++from) {
        for (std::int64_t i = 0; i < 2 * result.rows[static_cast<std::size_t>(from)]; ++i) {
          ASSERT_EQ(floats[at++], static_cast<float>(10 * from + step));
        }
      }
      engine.release(handle.value());
    }
    EXPECT_GT(engine.statistics().direct, 0U);
  });
}

TEST_P(Direct, ResultsAreThoseOfTheBackendBitForBit) {
  const Allreduce operations[] = {{.op = ReduceOp::kAverage},
                                  {.op = ReduceOp::kMax},
                                  {.prescale = 0.3, .postscale = 3.0},
                                  {.wire = Wire::kBfloat16},
                                  {.op = ReduceOp::kProduct}};
  std::vector<std::vector<std::vector<float>>> results;
  for (const bool direct : {false, true}) {
    EngineOptions options = World::quick_options();
    options.direct = direct;
    World world(nodes(5), options);
    auto& of_run = results.emplace_back(std::size(operations) * 4);
    world.run([&](int rank, Engine& engine) {
      for (std::size_t i = 0; i < std::size(operations); ++i) {
        for (int use = 0; use < 4; ++use) {
          std::vector<float> values(37);
          for (std::size_t k = 0; k < values.size(); ++k) {
            values[k] = 1.0F / static_cast<float>(3 * rank + 7 * static_cast<int>(k) + use + 1);
          }
          const std::string name = format_text("t{}", i);
          ASSERT_TRUE(run_request(engine, allreduce_request(name, values, operations[i])).is_ok());
          if (rank == 2) of_run[4 * i + static_cast<std::size_t>(use)] = values;
        }
      }
      EXPECT_EQ(engine.statistics().direct > 0, direct);
    });
  }
  EXPECT_EQ(results.front(), results.back());
}

/// Runs `operation` on seven rows of two; what this rank has of it.
std::vector<float> result_of(Engine& engine, int rank, const std::string& name,
                             const Operation& operation, int use) {
  std::vector<float> values(14);
  for (std::size_t k = 0; k < values.size(); ++k) {
    values[k] = 1.0F / static_cast<float>(3 * rank + 7 * static_cast<int>(k) + use + 1);
  }
  std::vector<float> output(14, -1.0F);
  Request request = request_of(name, operation, values);
  request.tensors.front().shape = {7, 2};
  const bool is_made = kind_of(operation).output == Memory::kLibrary;
  request.tensors.front().output = is_made ? nullptr : output.data();
  if (std::holds_alternative<Alltoall>(operation)) request.tensors.front().splits = {1, 4, 2};
  const auto handle = engine.submit(std::move(request));
  if (!handle.is_ok()) return {};
  const Status done = engine.wait(handle.value(), soon());
  EXPECT_TRUE(done.is_ok()) << name << ": " << done.message();
  if (is_made) {
    const GatherResult& result = *engine.gathered(handle.value(), 0).value();
    const auto* floats = reinterpret_cast<const float*>(result.begin());
    output.assign(floats, floats + 2 * (result.shape.empty() ? 0 : result.shape.front()));
    for (const std::int64_t rows : result.rows) output.push_back(static_cast<float>(rows));
  }
  engine.release(handle.value());
  return output;
}

TEST_P(Direct, EveryKindGivesWhatTheBackendGives) {
  const Operation operations[] = {
      Allreduce{},       Allgather{},
      Broadcast{1},      Reducescatter{.op = ReduceOp::kAverage, .prescale = 0.7},
      Alltoall{},        Reduce{.root = 2, .op = ReduceOp::kMin},
      Gather{.root = 1}, Scatter{.root = 0}};
  std::vector<std::vector<std::vector<float>>> by_rank[2];
  for (const bool direct : {false, true}) {
    EngineOptions options = World::quick_options();
    options.direct = direct;
    World world(nodes(3), options);
    auto& of_run = by_rank[direct ? 1 : 0];
    of_run.resize(3);
    world.run([&](int rank, Engine& engine) {
      for (const Operation& operation : operations) {
        const std::string name(kind_name(operation));
        const std::uint64_t before = engine.statistics().direct;
        for (int use = 0; use < 5; ++use) {
          of_run[static_cast<std::size_t>(rank)].push_back(
              result_of(engine, rank, name, operation, use));
        }
        EXPECT_EQ(engine.statistics().direct > before, direct) << name;
      }
    });
  }
  EXPECT_EQ(by_rank[0], by_rank[1]);
  for (const auto& results : by_rank[1]) EXPECT_EQ(results.size(), std::size(operations) * 5);
}

TEST_P(Direct, AGroupCompletesAsOne) {
  World world(nodes(2));
  world.run([](int rank, Engine& engine) {
    for (int step = 0; step < 10; ++step) {
      std::vector<float> one(3, static_cast<float>(rank));
      std::vector<float> other(70, static_cast<float>(step));
      Request request = allreduce_request("group", one);
      request.tensors.push_back(allreduce_request("", other).tensors.front());
      ASSERT_TRUE(run_request(engine, std::move(request)).is_ok());
      EXPECT_EQ(one, std::vector<float>(3, 1.0F));
      EXPECT_EQ(other, std::vector<float>(70, static_cast<float>(2 * step)));
    }
    EXPECT_GT(engine.statistics().direct, 5U);
  });
}

TEST_P(Direct, RanksThatSubmitInOtherOrdersAreServedAllTheSame) {
  World world(nodes(3));
  world.run([](int rank, Engine& engine) {
    for (int step = 0; step < 100; ++step) {
      std::vector<std::vector<float>> values(5, {static_cast<float>(step)});
      std::vector<Engine::Handle> handles;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::size_t which = (i * static_cast<std::size_t>(rank + 1)) % values.size();
        const auto handle =
            engine.submit(allreduce_request(format_text("t{}", which), values[which]));
        ASSERT_TRUE(handle.is_ok());
        handles.push_back(handle.value());
      }
      for (const Engine::Handle handle : handles) {
        ASSERT_TRUE(engine.wait(handle, soon()).is_ok());
        engine.release(handle);
      }
      for (const auto& one : values) EXPECT_EQ(one.front(), static_cast<float>(3 * step));
    }
  });
}

TEST_P(Direct, AChangedShapeIsComparedAsEver) {
  World world(nodes(2));
  world.run([](int rank, Engine& engine) {
    std::vector<float> values(4, 1.0F);
    learn(engine, "t", values);
    std::vector<float> other(rank == 0 ? 4 : 5, 1.0F);
    const Status status = run_request(engine, allreduce_request("t", other));
    EXPECT_EQ(status.code(), Code::kMismatch);
    EXPECT_THAT(status.message(), HasSubstr("'t'"));
    std::vector<float> again(4, 1.0F);
    ASSERT_TRUE(run_request(engine, allreduce_request("t", again)).is_ok());
    EXPECT_EQ(again, std::vector<float>(4, 2.0F));
  });
}

TEST_P(Direct, WaitsForALateRankAndGivesUpInTime) {
  World world(nodes(2));
  world.run([](int rank, Engine& engine) {
    std::vector<float> values(1, 1.0F);
    learn(engine, "t", values);
    values.assign(1, 1.0F);
    if (rank == 1) std::this_thread::sleep_for(milliseconds(700));
    const auto handle = engine.submit(allreduce_request("t", values));
    ASSERT_TRUE(handle.is_ok());
    if (rank == 0) {
      EXPECT_EQ(engine.wait(handle.value(), Deadline::after(milliseconds(50))).code(),
                Code::kTimeout);
    }
    ASSERT_TRUE(engine.wait(handle.value(), soon()).is_ok());
    engine.release(handle.value());
    EXPECT_EQ(values.front(), 2.0F);
  });
}

TEST_P(Direct, AStallNamesWhatWasOffered) {
  EngineOptions options = World::quick_options();
  options.stall_warning = milliseconds(1000);
  CapturedErrors errors;
  World world(nodes(2), options);
  world.run([](int rank, Engine& engine) {
    std::vector<float> values(1, 1.0F);
    learn(engine, "late", values);
    if (rank == 1) std::this_thread::sleep_for(milliseconds(2500));
    ASSERT_TRUE(run_request(engine, allreduce_request("late", values)).is_ok());
  });
  EXPECT_THAT(errors.text(), HasSubstr("'late'"));
}

TEST_P(Direct, GoesOnWithoutARankThatHasJoined) {
  World world(nodes(3));
  world.run([](int rank, Engine& engine) {
    std::vector<float> values(1, 1.0F);
    learn(engine, "t", values);
    for (int step = 0; rank != 1 && step < 30; ++step) {
      values.assign(1, 1.0F);
      ASSERT_TRUE(run_request(engine, allreduce_request("t", values)).is_ok());
      EXPECT_EQ(values.front(), 2.0F);
    }
    ASSERT_TRUE(engine.join(0, false, soon()).is_ok());
    values.assign(1, 1.0F);
    ASSERT_TRUE(run_request(engine, allreduce_request("t", values)).is_ok());
    EXPECT_EQ(values.front(), 3.0F);
  });
}

TEST_P(Direct, AJoinComesAfterWhatIsOffered) {
  World world(nodes(2));
  world.run([](int rank, Engine& engine) {
    std::vector<float> values(1, 1.0F);
    learn(engine, "t", values);
    values.assign(1, 1.0F);
    if (rank == 1) {
      std::this_thread::sleep_for(milliseconds(100));
      ASSERT_TRUE(run_request(engine, allreduce_request("t", values)).is_ok());
      ASSERT_TRUE(engine.join(0, false, soon()).is_ok());
    } else {
      const auto handle = engine.submit(allreduce_request("t", values));
      ASSERT_TRUE(handle.is_ok());
      ASSERT_TRUE(engine.join(0, false, soon()).is_ok());
      ASSERT_TRUE(engine.wait(handle.value(), soon()).is_ok());
    }
    EXPECT_EQ(values.front(), 2.0F);
  });
}

TEST_P(Direct, WhatAllHaveSubmittedAtAShutdownIsDone) {
  for (const bool direct : {true, false}) {
    EngineOptions options = World::quick_options();
    options.direct = direct;
    World world(nodes(2), options);
    world.run([](int rank, Engine& engine) {
      std::vector<float> values(1, 1.0F);
      learn(engine, "t", values);
      values.assign(1, 1.0F);
      if (rank == 1) std::this_thread::sleep_for(milliseconds(100));
      const auto handle = engine.submit(allreduce_request("t", values));
      ASSERT_TRUE(handle.is_ok());
      EXPECT_TRUE(engine.shutdown(soon()).is_ok());
      const Status done = engine.wait(handle.value(), soon());
      EXPECT_TRUE(done.is_ok()) << done.message();
      EXPECT_EQ(values.front(), 2.0F);
    });
  }
}

TEST_P(Direct, WhatARankThatHasLeftDoesNotBringFails) {
  World world(nodes(2));
  world.run([](int rank, Engine& engine) {
    std::vector<float> values(1, 1.0F);
    learn(engine, "t", values);
    if (rank == 1) return static_cast<void>(engine.shutdown(soon()));
    const Status status = run_request(engine, allreduce_request("t", values));
    EXPECT_EQ(status.code(), Code::kAborted);
    EXPECT_TRUE(engine.shutdown(soon()).is_ok());
  });
}

TEST_P(Direct, WhatTheBackendsRefuseIsRefusedEachTime) {
  struct Case {
    DataType dtype;
    Operation operation;
  };
  const Case cases[] = {{DataType::kComplex64, Allreduce{.op = ReduceOp::kMin}},
                        {DataType::kComplex64, Reduce{.op = ReduceOp::kMax}},
                        {DataType::kBool, Allreduce{.op = ReduceOp::kAverage}},
                        {DataType::kFloat32, Allreduce{.op = ReduceOp::kBitAnd}},
                        {DataType::kInt32, Allreduce{.op = ReduceOp::kBitOr, .prescale = 2.0}},
                        {DataType::kInt32, Allreduce{.wire = Wire::kFloat16}}};
  World world(nodes(2));
  world.run([&](int, Engine& engine) {
    for (std::size_t i = 0; i < std::size(cases); ++i) {
      for (int use = 0; use < 4; ++use) {
        std::vector<float> values(8, 1.0F);
        Request request = request_of(format_text("t{}", i), cases[i].operation, values);
        request.tensors.front().dtype = cases[i].dtype;
        request.tensors.front().shape = {2};
        const Status status = run_request(engine, std::move(request));
        EXPECT_EQ(status.code(), Code::kUnsupported)
            << i << ", use " << use << ": " << status.message();
      }
    }
  });
}

TEST_P(Direct, ABackendThatCannotServeTheWorldNeverDoes) {
  EngineOptions options = World::quick_options();
  options.backend = "shm";
  World world(nodes(2), options);
  world.run([](int, Engine& engine) {
    for (int use = 0; use < 4; ++use) {
      std::vector<float> values(1, 1.0F);
      EXPECT_EQ(run_request(engine, allreduce_request("t", values)).is_ok(),
                GetParam() == Spread::kOneNode)
          << use;
    }
  });
}

TEST_P(Direct, ANameThatWasMissedOnceIsSoonBroughtDirectlyAgain) {
  World world(nodes(2));
  world.run([](int rank, Engine& engine) {
    const auto submit = [&](const char* name, std::vector<float>& values) {
      return engine.submit(allreduce_request(name, values)).value();
    };
    for (int step = 0; step < 1000; ++step) {
      std::vector<float> a(1, 1.0F);
      std::vector<float> b(1, 2.0F);
      if (step == 100) {
        const bool is_first = rank == 0;
        const auto one = is_first ? submit("a", a) : submit("b", b);
        const auto other = is_first ? submit("b", b) : submit("a", a);
        for (const Engine::Handle handle : {one, other}) {
          ASSERT_TRUE(engine.wait(handle, soon()).is_ok());
          engine.release(handle);
        }
      } else {
        ASSERT_TRUE(run_request(engine, allreduce_request("a", a)).is_ok());
        ASSERT_TRUE(run_request(engine, allreduce_request("b", b)).is_ok());
      }
      ASSERT_EQ(a.front(), 2.0F);
      ASSERT_EQ(b.front(), 4.0F);
    }
    EXPECT_GT(engine.statistics().direct, 1200U);
  });
}

TEST_P(Direct, ProcessSetsHaveRoundsOfTheirOwn) {
  World world(nodes(3));
  world.run([](int rank, Engine& engine) {
    const auto set = engine.add_process_set({0, 2}, soon());
    ASSERT_TRUE(set.is_ok());
    for (int step = 0; step < 50; ++step) {
      std::vector<float> values(1, static_cast<float>(rank + 1));
      if (rank != 1) {
        Request request = allreduce_request("t", values);
        request.process_set = set.value();
        ASSERT_TRUE(run_request(engine, std::move(request)).is_ok());
        EXPECT_EQ(values.front(), 4.0F);
      }
      values.assign(1, static_cast<float>(rank + 1));
      ASSERT_TRUE(run_request(engine, allreduce_request("t", values)).is_ok());
      EXPECT_EQ(values.front(), 6.0F);
    }
    const bool has_rounds = rank != 1 && GetParam() == Spread::kOneNode;  // the set
    EXPECT_GT(engine.statistics().direct, has_rounds ? 80U : 40U);
    ASSERT_TRUE(engine.remove_process_set(set.value(), soon()).is_ok());
    std::vector<float> values(1, 1.0F);
    ASSERT_TRUE(run_request(engine, allreduce_request("t", values)).is_ok());
  });
}

}  // namespace
}  // namespace hvd
