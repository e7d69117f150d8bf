// SPDX-License-Identifier: Apache-2.0
// Adasum over doubles of the driver and of NCCL, beside the CPU plane's of the same gradients.
#include <array>
#include <cmath>
#include <cstring>
#include <random>

#include "base/bytes.h"
#include "collective/half_bits.h"
#include "world/nccl_world.h"

namespace hvd {
namespace {

// Together more than two slices of 256 KiB for each of four ranks, as float32.
constexpr std::array<std::size_t, 4> kCounts{1, 333, 70'001, 300'007};

void put(std::byte* to, DataType dtype, double value) {
  const auto narrow = static_cast<float>(value);
  if (dtype == DataType::kFloat64) {
    std::memcpy(to, &value, sizeof value);
  } else if (dtype == DataType::kFloat32) {
    std::memcpy(to, &narrow, sizeof narrow);
  } else {
    const std::uint16_t half =
        dtype == DataType::kFloat16 ? float_to_float16(narrow) : float_to_bfloat16(narrow);
    std::memcpy(to, &half, sizeof half);
  }
}

double get(const std::byte* from, DataType dtype) {
  if (dtype == DataType::kFloat64) {
    double value = 0;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  if (dtype == DataType::kFloat32) {
    float value = 0;
    std::memcpy(&value, from, sizeof value);
    return static_cast<double>(value);
  }
  std::uint16_t half = 0;
  std::memcpy(&half, from, sizeof half);
  return static_cast<double>(dtype == DataType::kFloat16 ? float16_to_float(half)
                                                         : bfloat16_to_float(half));
}

/// Of a value near 1: what roundings of the type and of float32 in between may come to.
double tolerance_of(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat16:
      return 2e-3;
    case DataType::kBfloat16:
      return 1.6e-2;
    case DataType::kFloat32:
      return 2e-6;
    default:
      return 1e-13;
  }
}

/// Neither orthogonal nor parallel: a part that all ranks have, and one of each.
std::vector<Bytes> gradients_of(int rank, DataType dtype) {
  std::mt19937 common(7);
  std::mt19937 own(static_cast<unsigned>(100 + rank));
  // Each draws two numbers at once and keeps one.
  std::normal_distribution<double> of_all;
  std::normal_distribution<double> of_rank;
  std::vector<Bytes> tensors;
  for (const std::size_t count : kCounts) {
    Bytes& tensor = tensors.emplace_back(count * size_of(dtype));
    for (std::size_t i = 0; i < count; ++i) {
      put(&tensor[i * size_of(dtype)], dtype, of_all(common) + of_rank(own));
    }
  }
  return tensors;
}

Request adasum_request(std::string name, DataType dtype, const std::vector<std::byte*>& tensors) {
  Request request;
  request.name = std::move(name);
  request.operation = Allreduce{.op = ReduceOp::kAdasum, .prescale = 0.5, .postscale = 2.0};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    request.tensors.push_back(
        {tensors[i], tensors[i], dtype, {static_cast<std::int64_t>(kCounts[i])}, 0});
  }
  return request;
}

std::vector<Bytes> on_cpu(Engine& engine, int rank, DataType dtype) {
  std::vector<Bytes> tensors = gradients_of(rank, dtype);
  std::vector<std::byte*> memory;
  for (Bytes& tensor : tensors) memory.push_back(tensor.data());
  const Status status = run_request(engine, adasum_request("cpu", dtype, memory));
  EXPECT_TRUE(status.is_ok()) << status.message();
  return tensors;
}

std::vector<Bytes> on_gpu(Engine& engine, int rank, DataType dtype) {
  std::vector<Bytes> tensors = gradients_of(rank, dtype);
  std::vector<DeviceTensor<std::byte>> places;
  std::vector<std::byte*> memory;
  for (const Bytes& tensor : tensors) {
    places.emplace_back(GpuWorld::gpu(rank), tensor);
    memory.push_back(places.back().data());
  }
  Request request = adasum_request("gpu", dtype, memory);
  request.device = GpuWorld::gpu(rank).device();
  const Status status = run_request(engine, std::move(request));
  EXPECT_TRUE(status.is_ok()) << status.message();
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i] = places[i].values();
  return tensors;
}

class NcclAdasumWorld : public NcclWorld, public testing::WithParamInterface<std::vector<int>> {};

TEST_P(NcclAdasumWorld, MeansWhatItMeansOnTheCpu) {
  NcclRanks world(GetParam());
  for (const DataType dtype :
       {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat32, DataType::kFloat64}) {
    std::vector<std::vector<Bytes>> results(static_cast<std::size_t>(world.size()));
    world.run([&results, dtype](int rank, Engine& engine) {
      const std::vector<Bytes> expected = on_cpu(engine, rank, dtype);
      auto& result = results[static_cast<std::size_t>(rank)];
      result = on_gpu(engine, rank, dtype);
      for (std::size_t i = 0; i < kCounts.size(); ++i) {
        for (std::size_t k = 0; k < kCounts[i]; ++k) {
          const double right = get(&expected[i][k * size_of(dtype)], dtype);
          ASSERT_NEAR(get(&result[i][k * size_of(dtype)], dtype), right,
                      tolerance_of(dtype) * std::max(1.0, std::abs(right)))
              << name_of(dtype) << ", tensor " << i << ", element " << k;
        }
      }
    });
    for (const auto& result : results) EXPECT_EQ(result, results[0]) << name_of(dtype);
  }
  EXPECT_EQ(double_nccl_calls("ncclSend") > 0, world.size() > 1);
}

TEST_P(NcclAdasumWorld, IsRefusedWhileARankHasJoined) {
  NcclRanks world(GetParam());
  const int last = world.size() - 1;
  if (last == 0) GTEST_SKIP() << "nobody is left";
  world.run([last](int rank, Engine& engine) {
    auto first = gpu_tensors(rank, {10});
    ASSERT_TRUE(run_request(engine, gpu_request("first", rank, first)).is_ok());
    if (rank != last) {
      auto tensors = gpu_tensors(rank, {10, 20});
      const Status status =
          run_request(engine, gpu_request("a", rank, tensors, Allreduce{.op = ReduceOp::kAdasum}));
      EXPECT_EQ(status.code(), Code::kUnsupported) << status.message();
    }
    EXPECT_TRUE(engine.join(0, false, soon()).is_ok());
    auto again = gpu_tensors(rank, {10, 20});
    const Status status =
        run_request(engine, gpu_request("a", rank, again, Allreduce{.op = ReduceOp::kAdasum}));
    EXPECT_TRUE(status.is_ok()) << status.message();
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, NcclAdasumWorld,
                         testing::Values(std::vector<int>{1}, std::vector<int>{2},
                                         std::vector<int>{3}, std::vector<int>{4},
                                         std::vector<int>{5}, std::vector<int>{1, 1},
                                         std::vector<int>{2, 2}, std::vector<int>{2, 3},
                                         std::vector<int>{3, 2}, std::vector<int>{4, 1}));

}  // namespace
}  // namespace hvd
