// SPDX-License-Identifier: Apache-2.0
// Tensors that lie in the arenas of the ranks: the same bits as private ones, whoever shares.
#include <gmock/gmock.h>

#include <cstring>
#include <string>

#include "world/world.h"

namespace hvd {
namespace {

/// Floats in the rank's arena, or in its own memory.
class Floats {
 public:
  Floats(Engine& engine, std::size_t count, bool shared) : count_(count) {
    if (shared) {
      arena_ = engine.arena();
      data_ = static_cast<float*>(arena_->allocate(count * sizeof(float)).value());
    } else {
      private_.resize(count);
      data_ = private_.data();
    }
  }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  ~Floats() {
    const bool is_freed = arena_ == nullptr || arena_->deallocate(data_);
    EXPECT_TRUE(is_freed);
  }
  float* data() { return data_; }
  std::size_t size() const { return count_; }

 private:
  std::size_t count_;
  std::shared_ptr<SharedArena> arena_;
  std::vector<float> private_;
  float* data_ = nullptr;
};

Tensor tensor_of(Floats& input, Floats& output) {
  return {.input = input.data(),
          .output = output.data(),
          .dtype = DataType::kFloat32,
          .shape = {static_cast<std::int64_t>(input.size())}};
}

void fill(Floats& values, int rank) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    values.data()[i] = 1.0F / static_cast<float>(1 + (i * 7 + static_cast<std::size_t>(rank)) % 31);
  }
}

/// The average of a group of tensors, in place or not, as bytes.
std::string averaged(Engine& engine, int rank, bool shared, bool in_place,
                     Wire wire = Wire::kSame) {
  std::string bytes;
  std::vector<std::unique_ptr<Floats>> all;
  Request request;
  request.name =
      std::string(shared ? "shared" : "private") + std::to_string(static_cast<int>(wire));
  request.operation = Allreduce{ReduceOp::kAverage, 1.0, 3.0, wire};
  for (const std::size_t count : {5000U, 1U, 0U, 70'001U}) {
    all.push_back(std::make_unique<Floats>(engine, count, shared));
    fill(*all.back(), rank);
    Floats& input = *all.back();
    if (!in_place) all.push_back(std::make_unique<Floats>(engine, count, shared));
    request.tensors.push_back(tensor_of(input, *all.back()));
  }
  std::vector<Tensor> tensors = request.tensors;
  const Status status = run_request(engine, std::move(request));
  EXPECT_TRUE(status.is_ok()) << status.message();
  for (const Tensor& tensor : tensors) {
    bytes.append(static_cast<const char*>(tensor.output),
                 static_cast<std::size_t>(tensor.shape.front()) * sizeof(float));
  }
  return bytes;
}

class ZeroCopyWorld : public testing::TestWithParam<std::vector<int>> {};

TEST_P(ZeroCopyWorld, GivesTheBitsOfPrivateTensors) {
  World world(GetParam());
  world.run([](int rank, Engine& engine) {
    const std::string expected = averaged(engine, rank, false, true);
    EXPECT_EQ(averaged(engine, rank, true, true), expected);
    EXPECT_EQ(averaged(engine, rank, true, false), expected);
    EXPECT_EQ(averaged(engine, rank, true, true, Wire::kFloat16),
              averaged(engine, rank, false, true, Wire::kFloat16));
  });
}

TEST_P(ZeroCopyWorld, EveryRankMaySharePerTurn) {
  World world(GetParam());
  world.run([](int rank, Engine& engine) {
    const int size = engine.world().size;
    for (int turn = 0; turn < 8; ++turn) {
      Floats values(engine, 3000, ((turn >> (rank % 3)) & 1) != 0);
      std::fill_n(values.data(), values.size(), static_cast<float>(rank + turn));
      Request request;
      request.name = "turns";
      request.tensors.push_back(tensor_of(values, values));
      const Status status = run_request(engine, std::move(request));
      ASSERT_TRUE(status.is_ok()) << status.message();
      const auto sum = static_cast<float>(size * (size - 1) / 2 + size * turn);
      EXPECT_EQ(values.data()[0], sum);
      EXPECT_EQ(values.data()[2999], sum);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, ZeroCopyWorld,
                         testing::Values(std::vector<int>{1}, std::vector<int>{2},
                                         std::vector<int>{3}, std::vector<int>{5},
                                         std::vector<int>{2, 1}));

/// Rank 2 gives up, before or after it has told the others where its tensors lie.
void check_nobody_writes_after_a_loss(bool announced) {
  World world({3});
  world.run([&](int rank, Engine& engine) {
    Floats values(engine, 1 << 20, true);
    std::fill_n(values.data(), values.size(), 1.0F);
    Status status;
    for (int turn = 0; status.is_ok(); ++turn) {
      Request request;
      request.name = "loop";
      request.tensors.push_back(tensor_of(values, values));
      const bool gives_up = rank == 2 && turn == 3;
      if (gives_up && !announced) engine.abort("test");
      const auto handle = engine.submit(std::move(request));
      if (gives_up && announced) engine.abort("test");
      status = handle.is_ok() ? engine.wait(handle.value(), soon()) : handle.status();
    }
    EXPECT_EQ(status.code(), Code::kPeerLost) << status.message();
    // Under a race checker a late write of a peer would be seen here.
    std::fill_n(values.data(), values.size(), 5.0F);
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values.data()[i], 5.0F);
  });
}

TEST(ZeroCopy, NobodyWritesIntoTensorsAfterALoss) {
  check_nobody_writes_after_a_loss(false);
  for (int run = 0; run < 10; ++run) check_nobody_writes_after_a_loss(true);
}

}  // namespace
}  // namespace hvd
