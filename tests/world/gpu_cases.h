// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "world/gpu_world.h"

namespace hvd {

/// Data types that each operation is tried with. To ThreadSanitizer all are alike.
#if defined(__SANITIZE_THREAD__)
constexpr std::array kTypesOfEachOperation{DataType::kFloat32, DataType::kBfloat16};
#else
constexpr auto kTypesOfEachOperation = [] {
  std::array<DataType, kDataTypeCount> all{};
  for (int dtype = 0; dtype < kDataTypeCount; ++dtype) all[dtype] = static_cast<DataType>(dtype);
  return all;
}();
#endif

/// What the elements of a case are.
enum class GpuValues {
  kAny,  ///< Sums of them are not exact: for what gives the bits of CPU memory.
  kFew,  ///< 1 and 2, whose sums and products are exact in any order; the rest may round.
};

/// One operation, on two tensors of `rows` rows. Roots count within the process set.
struct GpuCase {
  Operation operation;
  DataType dtype = DataType::kFloat32;
  std::int64_t rows = 7;
  std::int64_t row_count = 3;
  GpuValues values = GpuValues::kAny;
  int process_set = 0;
  std::vector<int> ranks = {};  ///< Of the process set; empty: all, in order.
};

/// One rank's part of a case, on memory of either kind.
class GpuPart {
 public:
  /// `rank`: within the process set.
  GpuPart(const GpuCase& test, int rank, int size, Gpu& gpu, bool on_gpu)
      : test_(test), rank_(rank), size_(size), on_gpu_(on_gpu), gpu_(gpu) {}

  /// Status and results: of two tensors, one in place where the operation allows it.
  std::pair<Status, std::vector<std::vector<std::byte>>> run(Engine& engine);

 private:
  using Bytes = std::vector<std::byte>;
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
  std::int64_t rows() const;
  std::vector<std::int64_t> splits() const;
  Request make_request();
  Tensor make_tensor(unsigned index);

  const GpuCase& test_;
  int rank_;
  int size_;
  bool on_gpu_;
  Gpu& gpu_;
  std::vector<std::unique_ptr<Memory>> inputs_;
  std::vector<std::unique_ptr<Memory>> outputs_;  ///< Null: the library makes it, or none is due.
};

/// Runs the case on CPU memory and on GPU memory, and wants the same code and the same bits; of few
/// values the same except for rounding.
void expect_equal_on_both(Engine& engine, const GpuCase& test, int rank, int size, Gpu& gpu);
void expect_equal_on_both(World& world, const GpuCase& test);

/// Every operation, with reductions, scales, averages and wires.
std::vector<Operation> gpu_operations();

}  // namespace hvd
