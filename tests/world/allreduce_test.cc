// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "world/world.h"

namespace hvd {
namespace {

float expected_sum(int size) { return static_cast<float>(size * (size + 1)) / 2; }

void check_sum(int rank, Engine& engine, std::size_t count, const std::string& name) {
  std::vector<float> values(count, static_cast<float>(rank + 1));
  const Status status = run_request(engine, allreduce_request(name, values));
  ASSERT_TRUE(status.is_ok()) << status.message();
  for (const float value : values) ASSERT_EQ(value, expected_sum(engine.world().size));
}

class AllreduceWorld : public testing::TestWithParam<std::vector<int>> {};

TEST_P(AllreduceWorld, SumsOverRanks) {
  World world(GetParam());
  world.run([](int rank, Engine& engine) {
    for (const std::size_t count : {0, 1, 3, 1000, 70'000}) {
      for (int repeat = 0; repeat < 3; ++repeat) check_sum(rank, engine, count, "x");
    }
  });
}

TEST_P(AllreduceWorld, TakesUnnamedRequestsInCallOrder) {
  World world(GetParam());
  world.run([](int rank, Engine& engine) {
    for (int i = 0; i < 10; ++i) check_sum(rank, engine, 17, "");
  });
}

TEST_P(AllreduceWorld, RanksMaySubmitInAnyOrder) {
  World world(GetParam());
  world.run([](int rank, Engine& engine) {
    constexpr int kTensors = 12;
    for (int step = 0; step < 5; ++step) {
      std::vector<std::vector<float>> tensors;
      std::vector<Engine::Handle> handles(kTensors);
      for (int i = 0; i < kTensors; ++i) {
        tensors.emplace_back(100 * (i + 1), static_cast<float>(rank + 1));
      }
      for (int i = 0; i < kTensors; ++i) {
        const int which = (i * 5 + rank * 7) % kTensors;
        auto handle = engine.submit(allreduce_request("t" + std::to_string(which), tensors[which]));
        ASSERT_TRUE(handle.is_ok()) << handle.status().message();
        handles[which] = handle.value();
      }
      for (const auto handle : handles) {
        const Status status = engine.wait(handle, soon());
        ASSERT_TRUE(status.is_ok()) << status.message();
        engine.release(handle);
      }
      for (const auto& tensor : tensors) {
        for (const float value : tensor) ASSERT_EQ(value, expected_sum(engine.world().size));
      }
    }
  });
}

TEST_P(AllreduceWorld, ANameInFlightQueuesBehindItself) {
  World world(GetParam());
  world.run([](int rank, Engine& engine) {
    std::vector<std::vector<float>> tensors(4,
                                            std::vector<float>(50, static_cast<float>(rank + 1)));
    std::vector<Engine::Handle> handles;
    for (auto& tensor : tensors) {
      handles.push_back(engine.submit(allreduce_request("same", tensor)).value());
    }
    for (const auto handle : handles) ASSERT_TRUE(engine.wait(handle, soon()).is_ok());
    for (const auto& tensor : tensors) ASSERT_EQ(tensor[49], expected_sum(engine.world().size));
  });
}

float given(int rank, std::size_t i) {
  return static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 13) % 101);
}

void check_elements(int rank, Engine& engine, const std::vector<std::size_t>& counts, bool in_place,
                    ReduceOp op) {
  std::vector<std::vector<float>> inputs;
  std::vector<std::vector<float>> outputs;
  Request request;
  request.name = "elements";
  request.operation = Allreduce{.op = op};
  for (const std::size_t count : counts) {
    std::vector<float>& input = inputs.emplace_back(count);
    for (std::size_t i = 0; i < count; ++i) input[i] = given(rank, i);
    float* output = in_place ? input.data() : outputs.emplace_back(count).data();
    request.tensors.push_back(
        {input.data(), output, DataType::kFloat32, {static_cast<std::int64_t>(count)}, 0});
  }
  const Status status = run_request(engine, request);
  ASSERT_TRUE(status.is_ok()) << status.message();
  for (std::size_t tensor = 0; tensor < counts.size(); ++tensor) {
    for (std::size_t i = 0; i < counts[tensor]; ++i) {
      float expected = given(0, i);
      for (int other = 1; other < engine.world().size; ++other) {
        const float theirs = given(other, i);
        expected = op == ReduceOp::kMax ? std::max(expected, theirs) : expected + theirs;
      }
      ASSERT_EQ(in_place ? inputs[tensor][i] : outputs[tensor][i], expected)
          << "element " << i << " of " << counts[tensor];
      ASSERT_EQ(inputs[tensor][i], in_place ? expected : given(rank, i));
    }
  }
}

TEST_P(AllreduceWorld, EachElementHasItsOwnResult) {
  World world(GetParam());
  world.run([](int rank, Engine& engine) {
    for (const bool in_place : {false, true}) {
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
        check_elements(rank, engine, {9'001}, in_place, op);
        check_elements(rank, engine, {150'001}, in_place, op);
        check_elements(rank, engine, {40'000, 3, 50'001}, in_place, op);
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, AllreduceWorld,
                         testing::Values(std::vector<int>{1}, std::vector<int>{2},
                                         std::vector<int>{3}, std::vector<int>{4},
                                         std::vector<int>{1, 1}, std::vector<int>{2, 2},
                                         std::vector<int>{1, 1, 1}, std::vector<int>{2, 1, 1},
                                         std::vector<int>(6, 1)));

}  // namespace
}  // namespace hvd
