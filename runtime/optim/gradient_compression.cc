// SPDX-License-Identifier: Apache-2.0
// How gradients of a set are compressed: what is chosen, and the end of a step.
#include <algorithm>
#include <utility>
#include <vector>

#include "optim/gradient_norm.h"
#include "optim/gradient_set.h"

namespace hvd {

Status GradientSet::check_momentum(const Entry& entry, Sharing sharing) {
  if (sharing == Sharing::kReduced) return Status::ok();
  return error(Code::kUnsupported,
               "gradient '{}': it stays on this rank, and a momentum of compression is of what is "
               "reduced; choose a compression without momentum for it",
               entry.gradient.name);
}

Status GradientSet::compress(std::size_t index, const Compression& compression) {
  HVD_TRY(check_idle(index));
  Entry& entry = gradients_[index];
  const ReduceOp op = options_.operation.op;
  if (is_linear(compression.method) && op != ReduceOp::kAverage && op != ReduceOp::kSum) {
    return error(Code::kUnsupported,
                 "gradient '{}': compression {} of {}; it works for sums and averages",
                 entry.gradient.name, name_of(compression.method), name_of(op));
  }
  if (is_on_gpu() && wire_of(compression.method) == Wire::kSame &&
      compression.method != CompressionMethod::kNone) {
    return error(Code::kUnsupported,
                 "gradient '{}': compression {} of GPU memory; there gradients travel as float16, "
                 "bfloat16 or whole",
                 entry.gradient.name, name_of(compression.method));
  }
  if (compression.momentum != 0) HVD_TRY(check_momentum(entry, entry.sharing));
  if (compression == entry.compression) return Status::ok();  // keeps its state
  HVD_TRY_ASSIGN(auto compressor,
                 make_compressor(compression, entry.gradient.name, entry.gradient.tensor));
  entry.compression = compression;
  // New memory: requests of an abandoned step may still use the old.
  entry.memory = compressor == nullptr ? nullptr : std::make_shared<Memory>();
  if (compressor != nullptr) entry.memory->compressor = std::move(compressor);
  return Status::ok();
}

bool GradientSet::are_finite() const {
  return std::all_of(gradients_.begin(), gradients_.end(), [this](const Entry& entry) {
    if (!travels(entry)) return true;
    const Memory* const memory = entry.memory.get();
    if (memory != nullptr && memory->compressor != nullptr) return memory->compressor->is_finite();
    const bool is_difference = memory != nullptr && entry.is_difference;
    const void* const values = is_difference ? memory->difference.data() : entry.data;
    return all_finite(entry.gradient.tensor.dtype, values, entry.count);
  });
}

void GradientSet::finish_compression() {
  bool has_state = false;
  std::vector<std::size_t> compressed;
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    if (!travels(gradients_[i]) || !is_compressed(i)) continue;
    compressed.push_back(i);
    has_state |= gradients_[i].memory->compressor->has_state();
  }
  const bool counts = !has_state || are_finite();
  for (const std::size_t i : compressed) {
    gradients_[i].memory->compressor->finish(counts);
  }
}

}  // namespace hvd
