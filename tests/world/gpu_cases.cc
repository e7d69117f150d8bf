// SPDX-License-Identifier: Apache-2.0
#include "world/gpu_cases.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>

#include "base/bytes.h"
#include "base/format.h"
#include "collective/float8_bits.h"
#include "collective/half_bits.h"

namespace hvd {
namespace {

/// An element that is not NaN.
void append_element(Bytes& bytes, DataType dtype, std::mt19937& random, GpuValues values) {
  const auto few = static_cast<std::uint8_t>(1 + random() % 2);
  const bool is_few = values == GpuValues::kFew;
  const auto real = is_few ? few : static_cast<float>(random() % 4001) / 333.0F - 6.0F;
  const auto append = [&](auto value) {
    const auto* begin = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), begin, begin + sizeof value);
  };
  switch (dtype) {
    case DataType::kFloat16:
      return append(float_to_float16(real));
    case DataType::kBfloat16:
      return append(float_to_bfloat16(real));
    case DataType::kFloat32:
      return append(real);
    case DataType::kFloat64:
      return append(is_few ? real : static_cast<double>(real) / 3);
    case DataType::kComplex64:
      append(real);
      return append(-real);
    case DataType::kComplex128:
      append(static_cast<double>(real));
      return append(is_few ? real : static_cast<double>(real) / 7);
    case DataType::kBool:
      return append(static_cast<std::uint8_t>(random() % 2));
    case DataType::kFloat8E4m3:
      return append(float_to_float8<Float8E4m3>(real));
    case DataType::kFloat8E5m2:
      return append(float_to_float8<Float8E5m2>(real));
    default:
      for (std::size_t i = 0; i < size_of(dtype); ++i) {
        append(static_cast<std::uint8_t>(is_few ? (i == 0 ? few : 0) : random()));
      }
  }
}

Bytes elements(const GpuCase& test, std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes;
  bytes.reserve(count * size_of(test.dtype));
  for (std::size_t i = 0; i < count; ++i) append_element(bytes, test.dtype, random, test.values);
  return bytes;
}

/// Element `i` of a floating type; of a complex one its real or imaginary part.
double real_at(const Bytes& bytes, DataType dtype, std::size_t i) {
  const auto load = [&](auto like) {
    std::memcpy(&like, &bytes[i * sizeof like], sizeof like);
    return like;
  };
  if (dtype == DataType::kFloat16) return float16_to_float(load(std::uint16_t{}));
  if (dtype == DataType::kBfloat16) return bfloat16_to_float(load(std::uint16_t{}));
  if (dtype == DataType::kFloat8E4m3) return float8_to_float<Float8E4m3>(load(std::uint8_t{}));
  if (dtype == DataType::kFloat8E5m2) return float8_to_float<Float8E5m2>(load(std::uint8_t{}));
  if (dtype == DataType::kFloat32 || dtype == DataType::kComplex64) return load(float{});
  return load(double{});
}

/// Relative distance that a few roundings make.
double rounding_of(const GpuCase& test) {
  const auto* allreduce = std::get_if<Allreduce>(&test.operation);
  const bool is_bfloat16 = test.dtype == DataType::kBfloat16 ||
                           (allreduce != nullptr && allreduce->wire == Wire::kBfloat16);
  if (is_bfloat16) return 0x1p-6;
  if (test.dtype == DataType::kFloat16) return 0x1p-9;
  if (test.dtype == DataType::kFloat8E4m3) return 0x1p-3;
  if (test.dtype == DataType::kFloat8E5m2) return 0x1p-2;
  return test.dtype == DataType::kFloat64 || test.dtype == DataType::kComplex128 ? 0x1p-50
                                                                                 : 0x1p-21;
}

bool is_rounded(DataType dtype) {
  return is_floating(dtype) || dtype == DataType::kComplex64 || dtype == DataType::kComplex128;
}

bool are_close(const Bytes& a, const Bytes& b, const GpuCase& test) {
  if (a.size() != b.size()) return false;
  std::size_t element = size_of(test.dtype);
  if (test.dtype == DataType::kComplex64 || test.dtype == DataType::kComplex128) element /= 2;
  for (std::size_t i = 0; i < a.size() / element; ++i) {
    const double wanted = real_at(b, test.dtype, i);
    const double got = real_at(a, test.dtype, i);
    if (!(std::abs(got - wanted) <= rounding_of(test) * (1 + std::abs(wanted)))) return false;
  }
  return true;
}

std::size_t at(std::int64_t number) { return static_cast<std::size_t>(number); }

}  // namespace

std::pair<Status, std::vector<Bytes>> GpuPart::run(Engine& engine) {
  Request request = make_request();
  const auto handle = engine.submit(std::move(request));
  if (!handle.is_ok()) return {handle.status(), {}};
  const Status status = engine.wait(handle.value(), soon());
  std::vector<Bytes> results;
  for (std::size_t i = 0; i < outputs_.size() && status.is_ok(); ++i) {
    if (outputs_[i] != nullptr) {
      results.push_back(outputs_[i]->values());
      continue;
    }
    const auto result = engine.gathered(handle.value(), i);
    if (!result.is_ok()) continue;  // of a reduce that ends elsewhere
    std::size_t bytes = size_of(test_.dtype);
    for (const auto extent : result.value()->shape) bytes *= static_cast<std::size_t>(extent);
    const std::byte* begin = result.value()->begin();
    results.emplace_back(begin, begin + bytes);
  }
  engine.release(handle.value());
  return {status, std::move(results)};
}

std::int64_t GpuPart::rows() const {
  if (is(Allgather{}) || is(Gather{})) return test_.rows + rank_;
  if (is(Alltoall{})) return test_.rows * size_ + 1;
  return test_.rows;
}

std::vector<std::int64_t> GpuPart::splits() const {
  std::vector<std::int64_t> splits;
  if (!is(Alltoall{}) && !(is(Scatter{}) && is_root())) return splits;
  std::int64_t left = rows();
  for (int to = 0; to < size_; ++to) {
    splits.push_back(std::min(left, test_.rows * ((rank_ + to) % 3) / 2));
    left -= splits.back();
  }
  return splits;
}

Request GpuPart::make_request() {
  Request request;
  request.name = describe(test_.operation) + (on_gpu_ ? " gpu" : " cpu");
  request.operation = test_.operation;
  request.process_set = test_.process_set;
  if (const auto root = root_of(test_.operation); root && !test_.ranks.empty()) {
    set_root(request.operation, test_.ranks[at(*root)]);
  }
  if (on_gpu_) request.device = gpu_.device();
  for (unsigned i = 0; i < 2; ++i) request.tensors.push_back(make_tensor(i));
  return request;
}

Tensor GpuPart::make_tensor(unsigned index) {
  Gpu* const gpu = on_gpu_ ? &gpu_ : nullptr;
  const auto count = static_cast<std::size_t>(rows() * test_.row_count);
  const unsigned seed = static_cast<unsigned>(rank_) * 2 + index;
  inputs_.push_back(std::make_unique<Memory>(gpu, elements(test_, count, seed)));
  Memory& input = *inputs_.back();
  Tensor tensor{.input = input.data(),
                .dtype = test_.dtype,
                .shape = {rows(), test_.row_count},
                .splits = splits()};
  outputs_.emplace_back();
  const bool fills = is(Allreduce{}) || is(Broadcast{}) || (is(Reduce{}) && is_root());
  if (fills && index == 0) {
    outputs_.back() = std::move(inputs_.back());
  } else if (fills) {
    outputs_.back() = std::make_unique<Memory>(gpu, Bytes(count * size_of(test_.dtype)));
  } else if (is(Reducescatter{}) && index == 1) {
    const auto share = first_row_of(static_cast<std::size_t>(rows()), at(size_), at(rank_ + 1)) -
                       first_row_of(static_cast<std::size_t>(rows()), at(size_), at(rank_));
    outputs_.back() =
        std::make_unique<Memory>(gpu, Bytes(share * at(test_.row_count) * size_of(test_.dtype)));
  }
  if (outputs_.back() != nullptr) tensor.output = outputs_.back()->data();
  return tensor;
}

void expect_equal_on_both(Engine& engine, const GpuCase& test, int rank, int size, Gpu& gpu) {
  const std::string what = format_text("{} of {} x {} {} on rank {}", describe(test.operation),
                                       test.rows, test.row_count, name_of(test.dtype), rank);
  const auto on_host = GpuPart(test, rank, size, gpu, false).run(engine);
  const auto on_gpu = GpuPart(test, rank, size, gpu, true).run(engine);
  EXPECT_EQ(on_gpu.first.code(), on_host.first.code()) << what << on_gpu.first.message();
  if (test.values == GpuValues::kAny || !is_rounded(test.dtype)) {
    EXPECT_TRUE(on_gpu.second == on_host.second) << what;
    return;
  }
  ASSERT_EQ(on_gpu.second.size(), on_host.second.size()) << what;
  for (std::size_t i = 0; i < on_gpu.second.size(); ++i) {
    EXPECT_TRUE(are_close(on_gpu.second[i], on_host.second[i], test)) << what << ", tensor " << i;
  }
}

void expect_equal_on_both(World& world, const GpuCase& test) {
  world.run([&](int rank, Engine& engine) {
    expect_equal_on_both(engine, test, rank, world.size(), GpuWorld::gpu(rank));
  });
}

std::vector<Operation> gpu_operations() {
  return {Allreduce{},
          Allreduce{ReduceOp::kAverage, 0.5, 3.0},
          Allreduce{ReduceOp::kMin},
          Allreduce{ReduceOp::kProduct},
          Allreduce{ReduceOp::kBitXor},
          Allreduce{ReduceOp::kAdasum},
          Allreduce{ReduceOp::kSum, 1.0, 1.0, Wire::kBfloat16},
          Broadcast{1},
          Reduce{0, ReduceOp::kAverage},
          Reduce{1, ReduceOp::kMax},
          Allgather{},
          Reducescatter{},
          Reducescatter{ReduceOp::kAverage, 2.0, 1.0},
          Alltoall{},
          Gather{1},
          Scatter{0}};
}

}  // namespace hvd
