// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "collective/data_type.h"
#include "collective/operation.h"
#include "device/device.h"
#include "device/gpu.h"
#include "device/memory_reaper.h"

namespace hvd {

/// A tensor as its owner describes it: dense, in any layout, taken flat.
/// `input` and `output` are borrowed until the request completes.
struct Tensor {
  const void* input = nullptr;
  void* output = nullptr;  ///< May equal input. Null: the library makes it, or none is due.
  DataType dtype = DataType::kFloat32;
  std::vector<std::int64_t> shape;  ///< Empty for a scalar.
  std::uint64_t layout = 0;         ///< Tag of the strides; ranks must agree. 0: row-major.
  /// Alltoall, and scatter on its root: rows for each rank of the set, which may differ by rank.
  /// Empty: shared out evenly. Rows beyond their sum stay where they are.
  std::vector<std::int64_t> splits = {};
  /// Length of `output` where the library makes the result: it lies there if it fits.
  std::size_t output_bytes = 0;
};

/// Gives memory back to where it came from: the GPU, or the host where that is null.
struct FreeRows {
  Gpu* gpu = nullptr;
  MemoryReaper* reaper = nullptr;       ///< Of `gpu`.
  std::vector<GpuEventPtr> after = {};  ///< What streams do with the rows ends there.
  void operator()(std::byte* rows) const {
    if (gpu != nullptr) {
      reaper->free(*gpu, rows, after);
    } else {
      delete[] rows;
    }
  }
};

/// A result whose size only the library knows, kept with the request until it is released.
struct GatherResult {
  std::vector<std::int64_t> shape;  ///< First dimension: the sum of `rows`.
  std::vector<std::int64_t> rows;   ///< [size] rows that came from each rank; reducescatter: mine.
  /// The rows, in the tensor's kind of memory; null where they lie in the tensor's output.
  std::unique_ptr<std::byte[], FreeRows> data;
  std::byte* given = nullptr;  ///< ... which is this.

  const std::byte* begin() const { return given != nullptr ? given : data.get(); }
  /// As one that nothing came to, except for the capacity of its vectors.
  void clear() {
    shape.clear();
    rows.clear();
    data.reset();
    given = nullptr;
  }
};

/// A collective that a user asks for: one name, one or more tensors (a group completes as one).
struct Request {
  std::string name;  ///< Same on every rank; empty: "<kind>.noname.<n>" is made.
  int process_set = 0;
  Operation operation;
  Device device;
  StreamHandle stream = nullptr;  ///< GPU memory: what makes the inputs is in it already.
  std::vector<Tensor> tensors;    ///< Empty for barrier and join only.
  int priority = 0;  ///< Higher runs first where there is a choice; equal on all ranks.
  /// More requests follow at once (as MSG_MORE): the engine thread need not wake for this one.
  bool more = false;
  /// Called exactly once, from whichever thread makes progress, without a lock held. Optional.
  std::function<void(const Status&)> on_complete;

  /// False for what has no tensors.
  bool is_on_gpu() const { return device.kind != DeviceKind::kCpu && !tensors.empty(); }
};

}  // namespace hvd
