// SPDX-License-Identifier: Apache-2.0
#include "collective/adasum.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "backends/shm/shm_backend.h"
#include "backends/tcp/tcp_backend.h"
#include "collective/half_bits.h"
#include "thread_ranks.h"

namespace hvd {
namespace {

using Vector = std::vector<double>;

// Tensors of one batch: one is empty, one longer than what is measured at once.
const std::vector<std::size_t> kCounts = {5, 0, kAdasumChunk + 333, 64};

struct Shape {
  const BackendEntry* entry;
  std::vector<int> nodes;
};

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (int size = 1; size <= 8; ++size) all.push_back({&kShmBackend, {size}});
  for (const std::vector<int>& nodes :
       {std::vector<int>{1, 1}, {2, 1}, {1, 1, 1}, {2, 2}, {3, 1, 1}, {2, 2, 1, 1}, {4, 3}}) {
    all.push_back({&kTcpBackend, nodes});
  }
  return all;
}

/// Gradients that have something in common, as those of one model do.
Vector gradient(int rank, std::size_t count) {
  std::uint64_t state = static_cast<std::uint64_t>(rank) * 7919 + count;
  Vector values(count);
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const auto shared = static_cast<double>(i * 37 % 101) / 50.0 - 1.0;
    values[i] = shared + static_cast<double>(state >> 40) / 1e7 - 0.8;
  }
  return values;
}

double load(DataType dtype, const std::byte* at) {
  std::uint16_t half = 0;
  float single = 0;
  double real = 0;
  switch (dtype) {
    case DataType::kFloat16:
      std::memcpy(&half, at, sizeof(half));
      return static_cast<double>(float16_to_float(half));
    case DataType::kBfloat16:
      std::memcpy(&half, at, sizeof(half));
      return static_cast<double>(bfloat16_to_float(half));
    case DataType::kFloat32:
      std::memcpy(&single, at, sizeof(single));
      return static_cast<double>(single);
    default:
      std::memcpy(&real, at, sizeof(real));
      return real;
  }
}

void store(DataType dtype, double value, std::byte* at) {
  const auto single = static_cast<float>(value);
  const std::uint16_t half =
      dtype == DataType::kFloat16 ? float_to_float16(single) : float_to_bfloat16(single);
  if (dtype == DataType::kFloat64) {
    std::memcpy(at, &value, sizeof(value));
  } else if (dtype == DataType::kFloat32) {
    std::memcpy(at, &single, sizeof(single));
  } else {
    std::memcpy(at, &half, sizeof(half));
  }
}

std::vector<std::byte> make_tensor(DataType dtype, int rank, std::size_t count) {
  const Vector values = gradient(rank, count);
  std::vector<std::byte> bytes(count * size_of(dtype));
  for (std::size_t i = 0; i < count; ++i) {
    store(dtype, values[i], bytes.data() + i * size_of(dtype));
  }
  return bytes;
}

/// The formula as it is printed, in float64.
Vector combine(const Vector& a, const Vector& b) {
  double aa = 0;
  double bb = 0;
  double ab = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    aa += a[i] * a[i];
    bb += b[i] * b[i];
    ab += a[i] * b[i];
  }
  Vector result(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    result[i] = (1 - ab / (2 * aa)) * a[i] + (1 - ab / (2 * bb)) * b[i];
  }
  return result;
}

/// Neighbours combine until one is left; at first only as many as leave a power of two.
Vector reference(std::vector<Vector> inputs) {
  while (inputs.size() > 1) {
    const std::size_t extra = inputs.size() - std::bit_floor(inputs.size());
    const std::size_t pairs = extra > 0 ? extra : inputs.size() / 2;
    std::vector<Vector> combined;
    for (std::size_t i = 0; i < pairs; ++i) {
      combined.push_back(combine(inputs[2 * i], inputs[2 * i + 1]));
    }
    for (std::size_t i = 2 * pairs; i < inputs.size(); ++i) combined.push_back(inputs[i]);
    inputs = std::move(combined);
  }
  return inputs[0];
}

Vector expected_tensor(DataType dtype, int size, std::size_t count, double prescale) {
  std::vector<Vector> inputs;
  for (int rank = 0; rank < size; ++rank) {
    const std::vector<std::byte> tensor = make_tensor(dtype, rank, count);
    inputs.emplace_back(count);
    for (std::size_t i = 0; i < count; ++i) {
      inputs.back()[i] = prescale * load(dtype, tensor.data() + i * size_of(dtype));
    }
  }
  return reference(std::move(inputs));
}

double tolerance(DataType dtype) {
  if (dtype == DataType::kFloat64) return 1e-12;
  if (dtype == DataType::kFloat32) return 1e-5;
  return dtype == DataType::kFloat16 ? 2e-3 : 1.6e-2;
}

using Tensors = std::vector<std::vector<std::byte>>;

Tensors run_adasum(ThreadRank& rank, DataType dtype, const Allreduce& operation, bool in_place) {
  Tensors inputs;
  Tensors outputs;
  Batch batch{.operation = operation, .dtype = dtype, .device = {}, .segments = {}, .allocate = {}};
  for (const std::size_t count : kCounts) {
    inputs.push_back(make_tensor(dtype, rank.communicator.rank, count));
    outputs.emplace_back(inputs.back().size());
  }
  Tensors& results = in_place ? inputs : outputs;
  for (std::size_t i = 0; i < kCounts.size(); ++i) {
    batch.segments.push_back(
        {.input = inputs[i].data(), .output = results[i].data(), .count = kCounts[i]});
  }
  run_batch(rank, std::move(batch));
  return results;
}

void check_adasum(const Shape& shape, DataType dtype, const Allreduce& operation, bool in_place) {
  int size = 0;
  for (const int ranks : shape.nodes) size += ranks;
  std::vector<Tensors> results(static_cast<std::size_t>(size));
  run_ranks(*shape.entry, shape.nodes, [&](ThreadRank& rank) {
    results[static_cast<std::size_t>(rank.communicator.rank)] =
        run_adasum(rank, dtype, operation, in_place);
  });
  for (const Tensors& of_rank : results) EXPECT_TRUE(of_rank == results[0]);
  for (std::size_t tensor = 0; tensor < kCounts.size(); ++tensor) {
    const Vector expected = expected_tensor(dtype, size, kCounts[tensor], operation.prescale);
    double worst = 0;
    for (std::size_t i = 0; i < kCounts[tensor]; ++i) {
      const double seen = load(dtype, results[0][tensor].data() + i * size_of(dtype));
      const double wanted = expected[i] * operation.postscale;
      worst = std::max(worst, std::abs(seen - wanted) / (1 + std::abs(wanted)));
    }
    EXPECT_LT(worst, tolerance(dtype)) << name_of(dtype) << " tensor " << tensor;
  }
}

TEST(AdasumTask, GivesEveryRankTheReferenceForEveryWorldAndType) {
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(shape_text(shape.nodes));
    const Allreduce plain{.op = ReduceOp::kAdasum};
    const Allreduce scaled{.op = ReduceOp::kAdasum, .prescale = 0.5, .postscale = 3};
    check_adasum(shape, DataType::kFloat32, plain, true);
    check_adasum(shape, DataType::kFloat64, scaled, false);
    check_adasum(shape, DataType::kFloat16, scaled, true);
    check_adasum(shape, DataType::kBfloat16, plain, false);
  }
}

TEST(AdasumTask, RunsAmongOtherBatches) {
  run_ranks(kShmBackend, {3}, [](ThreadRank& rank) {
    std::vector<float> ones(10'000, 1.0F);
    std::vector<float> same(10'000, 2.0F);
    std::vector<std::unique_ptr<Task>> tasks;
    const auto start = [&](const Allreduce& operation, std::vector<float>& values) {
      auto task = rank.backend->start({.operation = operation,
                                       .dtype = DataType::kFloat32,
                                       .device = {},
                                       .segments = {{values.data(), values.data(), values.size()}},
                                       .allocate = {}});
      ASSERT_TRUE(task.is_ok());
      tasks.push_back(std::move(task).value());
    };
    start({.op = ReduceOp::kAdasum}, same);
    start({}, ones);
    start({.op = ReduceOp::kAdasum}, same);
    finish(tasks);
    EXPECT_EQ(ones, std::vector<float>(10'000, 3.0F));
    EXPECT_EQ(same, std::vector<float>(10'000, 2.0F));
  });
}

}  // namespace
}  // namespace hvd
