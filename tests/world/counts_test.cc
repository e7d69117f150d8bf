// SPDX-License-Identifier: Apache-2.0
// More than 2^31 elements in one tensor. Needs 5 GiB and half a minute; skipped where there is
// less.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "world/world.h"

namespace hvd {
namespace {

constexpr std::size_t kCount = (std::size_t{1} << 31) + 4'099;
constexpr std::size_t kNeededBytes = std::size_t{6} << 30;

/// As the kernel estimates it; 0 where it does not say.
std::size_t available_bytes() {
  std::size_t kilobytes = 0;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/proc/meminfo", "r"),
                                                             std::fclose);
  char line[128];
  while (file != nullptr && std::fgets(line, sizeof line, file.get()) != nullptr) {
    if (std::sscanf(line, "MemAvailable: %zu", &kilobytes) == 1) break;
  }
  return kilobytes << 10;
}

/// One byte per element, each its own.
struct LargeTensor {
  std::unique_ptr<std::uint8_t[]> data = std::make_unique<std::uint8_t[]>(kCount);
  static std::uint8_t at(std::size_t i, int rank) {
    return static_cast<std::uint8_t>(i * 7 + (i >> 16) + static_cast<std::size_t>(rank));
  }
  void fill(int rank) {
    for (std::size_t i = 0; i < kCount; ++i) data[i] = at(i, rank);
  }
  /// The elements that are not expected(i).
  template <typename Expected>
  std::size_t wrong(Expected expected) const {
    std::size_t count = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      count += data[i] != static_cast<std::uint8_t>(expected(i)) ? 1U : 0U;
    }
    return count;
  }
  Request request(std::string name, Operation operation) {
    Request request;
    request.name = std::move(name);
    request.operation = operation;
    request.tensors.push_back({.input = data.get(),
                               .output = data.get(),
                               .dtype = DataType::kUint8,
                               .shape = {static_cast<std::int64_t>(kCount)}});
    return request;
  }
};

/// The ranks of each node.
class Counts : public testing::TestWithParam<std::vector<int>> {
 protected:
  void SetUp() override {
    const std::size_t available = available_bytes();
    if (available < kNeededBytes) {
      GTEST_SKIP() << "two tensors of 2^31 bytes need " << (kNeededBytes >> 20) << " MiB, "
                   << (available >> 20) << " MiB are available";
    }
  }
};

TEST_P(Counts, BeyondTwoToThe31AreReducedAndMoved) {
  World world(GetParam());
  world.run([&](int rank, Engine& engine) {
    LargeTensor bytes;
    bytes.fill(rank);
    ASSERT_TRUE(run_request(engine, bytes.request("sum", Allreduce{ReduceOp::kSum})).is_ok());
    EXPECT_EQ(
        bytes.wrong([](std::size_t i) { return LargeTensor::at(i, 0) + LargeTensor::at(i, 1); }),
        0U);
    bytes.fill(rank);
    ASSERT_TRUE(run_request(engine, bytes.request("move", Broadcast{1})).is_ok());
    EXPECT_EQ(bytes.wrong([](std::size_t i) { return LargeTensor::at(i, 1); }), 0U);
  });
}

INSTANTIATE_TEST_SUITE_P(Nodes, Counts,
                         testing::Values(std::vector<int>{2}, std::vector<int>{1, 1}));

}  // namespace
}  // namespace hvd
