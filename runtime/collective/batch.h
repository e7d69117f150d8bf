// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "collective/data_type.h"
#include "collective/launch_order.h"
#include "collective/operation.h"
#include "device/device.h"
#include "device/gpu.h"

namespace hvd {

/// One tensor of a batch, seen flat. `input` and `output` may be the same memory, or not overlap.
/// Both are borrowed from the caller of the request until it completes.
struct Segment {
  const void* input = nullptr;
  void* output = nullptr;     ///< Null where Batch::allocate makes it, and where none is due.
  std::size_t count = 0;      ///< Elements of `input` on this rank; may be 0.
  std::size_t row_count = 1;  ///< Elements of one row (product of dims 1..).
};

/// Which bucket of a frozen schedule a batch is. The same number with the same element type comes
/// again each step, with the same tensors in the same order.
struct FrozenBucket {
  std::uint64_t schedule = 0;  ///< From 1, one more each time buckets are frozen; 0: no bucket.
  std::uint32_t number = 0;    ///< From 1.
};

/// What a batch of GPU memory has besides.
struct GpuBatch {
  std::vector<GpuEventPtr> ready = {};  ///< The inputs may be read after these; one per stream.
  /// This rank has joined and only takes part. Its segments have no memory; what it adds is the
  /// identity of the reduction, and what comes of it is dropped.
  bool is_neutral = false;
  FrozenBucket bucket = {};  ///< What is known of it before it comes.
  /// Its place among the batches of other process sets. A backend whose kernels wait for other
  /// ranks keeps it and launches when it has come; others drop it.
  LaunchTurn turn = {};
};

/// What a backend runs at once: a list of tensors that share operation, element type and device,
/// in the same order on every rank of the communicator; at least one tensor. Never copied into a
/// fusion buffer by the engine: a backend streams the list as if it were one flat tensor.
struct Batch {
  Operation operation;
  DataType dtype = DataType::kFloat32;
  Device device;
  std::vector<Segment> segments;
  /// Alltoall and scatter: elements of each segment for each rank, [segment * size + rank]; they
  /// lie in this order in the segment's input. Zero on the ranks that are not the root.
  std::vector<std::size_t> splits = {};
  GpuBatch gpu = {};
  /// Where only the library knows the size of a result. Called once per segment without output,
  /// from `advance`, when the counts are known: returns memory for the concatenation, sum(counts)
  /// elements (null when the sum is 0). counts[r] is in elements, by rank of the communicator that
  /// they come from; a reducescatter has one entry, this rank's share. In the memory of `device`.
  std::function<Result<void*>(std::size_t segment, std::span<const std::size_t> counts)> allocate;

  std::size_t total_count() const {
    std::size_t total = 0;
    for (const Segment& segment : segments) total += segment.count;
    return total;
  }
};

}  // namespace hvd
