// SPDX-License-Identifier: Apache-2.0
// What goes through host memory: operation x type x size x world, bit for bit as on CPU memory.
#include <gmock/gmock.h>

#include <random>
#include <string>

#include "backends/staged/staging.h"
#include "collective/half_bits.h"
#include "world/gpu_world.h"

namespace hvd {
namespace {

using Bytes = std::vector<std::byte>;

/// Elements without NaN, whose sums are not exact.
void append_element(Bytes& bytes, DataType dtype, std::mt19937& random) {
  const auto real = static_cast<float>(random() % 4001) / 333.0F - 6.0F;
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
      return append(static_cast<double>(real) / 3);
    case DataType::kComplex64:
      append(real);
      return append(-real);
    case DataType::kComplex128:
      append(static_cast<double>(real));
      return append(static_cast<double>(real) / 7);
    case DataType::kBool:
      return append(static_cast<std::uint8_t>(random() % 2));
    case DataType::kFloat8E4m3:
    case DataType::kFloat8E5m2:
      return append(static_cast<std::uint8_t>(random() % 0x40));
    default:
      for (std::size_t i = 0; i < size_of(dtype); ++i) append(static_cast<std::uint8_t>(random()));
  }
}

Bytes elements(DataType dtype, std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes;
  bytes.reserve(count * size_of(dtype));
  for (std::size_t i = 0; i < count; ++i) append_element(bytes, dtype, random);
  return bytes;
}

struct Case {
  Operation operation;
  DataType dtype;
  std::int64_t rows;
  std::int64_t row_count = 3;
};

/// One rank's part of a case, on memory of either kind.
class Part {
 public:
  Part(const Case& test, int rank, int size, bool on_gpu)
      : test_(test), rank_(rank), size_(size), on_gpu_(on_gpu), gpu_(GpuWorld::gpu(rank)) {}

  /// Status and results: of two tensors, one in place where the operation allows it.
  std::pair<Status, std::vector<Bytes>> run(Engine& engine) {
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

 private:
  /// Bytes of either kind of memory, which read alike.
  class Memory {
   public:
    Memory(Gpu* gpu, Bytes bytes) : on_host_(std::move(bytes)) {
      if (gpu != nullptr) on_device_ = std::make_unique<DeviceTensor<std::byte>>(*gpu, on_host_);
    }
    std::byte* data() { return on_device_ ? on_device_->data() : on_host_.data(); }
    Bytes values() const { return on_device_ ? on_device_->values() : on_host_; }

   private:
    Bytes on_host_;
    std::unique_ptr<DeviceTensor<std::byte>> on_device_;
  };

  bool is(auto kind) const { return std::holds_alternative<decltype(kind)>(test_.operation); }
  bool is_root() const { return root_of(test_.operation) == rank_; }

  std::int64_t rows() const {
    if (is(Allgather{}) || is(Gather{})) return test_.rows + rank_;
    if (is(Alltoall{})) return test_.rows * size_ + 1;
    return test_.rows;
  }
  std::vector<std::int64_t> splits() const {
    std::vector<std::int64_t> splits;
    if (!is(Alltoall{}) && !(is(Scatter{}) && is_root())) return splits;
    std::int64_t left = rows();
    for (int to = 0; to < size_; ++to) {
      splits.push_back(std::min(left, test_.rows * ((rank_ + to) % 3) / 2));
      left -= splits.back();
    }
    return splits;
  }

  Request make_request() {
    Request request;
    request.name = describe(test_.operation) + (on_gpu_ ? " gpu" : " cpu");
    request.operation = test_.operation;
    if (on_gpu_) request.device = gpu_.device();
    for (unsigned i = 0; i < 2; ++i) request.tensors.push_back(make_tensor(i));
    return request;
  }

  Tensor make_tensor(unsigned index) {
    Gpu* const gpu = on_gpu_ ? &gpu_ : nullptr;
    const auto count = static_cast<std::size_t>(rows() * test_.row_count);
    const unsigned seed = static_cast<unsigned>(rank_) * 2 + index;
    inputs_.push_back(std::make_unique<Memory>(gpu, elements(test_.dtype, count, seed)));
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
  static std::size_t at(std::int64_t number) { return static_cast<std::size_t>(number); }

  const Case& test_;
  int rank_;
  int size_;
  bool on_gpu_;
  Gpu& gpu_;
  std::vector<std::unique_ptr<Memory>> inputs_;
  std::vector<std::unique_ptr<Memory>> outputs_;  ///< Null: the library makes it, or none is due.
};

void expect_equal_on_both(World& world, const Case& test) {
  world.run([&](int rank, Engine& engine) {
    const std::string what = format_text("{} of {} x {} {} on rank {}", describe(test.operation),
                                         test.rows, test.row_count, name_of(test.dtype), rank);
    const auto on_host = Part(test, rank, world.size(), false).run(engine);
    const auto on_gpu = Part(test, rank, world.size(), true).run(engine);
    EXPECT_EQ(on_gpu.first.code(), on_host.first.code()) << what << on_gpu.first.message();
    EXPECT_TRUE(on_gpu.second == on_host.second) << what;
  });
}

std::vector<Operation> operations() {
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

class StagedWorld : public testing::TestWithParam<std::vector<int>> {};

TEST_P(StagedWorld, GivesTheBitsOfCpuMemoryForEveryOperationAndType) {
  GpuWorld world(GetParam());
  for (const Operation& operation : operations()) {
    for (int dtype = 0; dtype < kDataTypeCount; ++dtype) {
      expect_equal_on_both(world, {operation, static_cast<DataType>(dtype), 7});
    }
  }
}

TEST_P(StagedWorld, GivesTheBitsOfCpuMemoryForEverySize) {
  GpuWorld world(GetParam());
  const auto chunk = static_cast<std::int64_t>(Staging::kChunkBytes / sizeof(float));
  for (const Operation& operation : operations()) {
    for (const std::int64_t rows : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1001}}) {
      expect_equal_on_both(world, {operation, DataType::kFloat32, rows});
    }
  }
  for (const Operation& operation :
       {Operation(Allreduce{ReduceOp::kAverage}), Operation(Broadcast{1}), Operation(Reduce{1}),
        Operation(Allgather{})}) {
    // More pieces than chunks, and pieces that hold the end of one tensor and the next.
    for (const std::int64_t rows : {chunk - 1, chunk, chunk * 3 + 5}) {
      expect_equal_on_both(world, {operation, DataType::kFloat32, rows, 1});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, StagedWorld,
                         testing::Values(std::vector<int>{2}, std::vector<int>{2, 1}));

}  // namespace
}  // namespace hvd
