// SPDX-License-Identifier: Apache-2.0
#include "backends/node/reduce_batch.h"

#include <array>
#include <utility>
#include <vector>

namespace hvd {
namespace {

const void* advanced(const void* base, std::size_t bytes) {
  return base == nullptr ? nullptr : static_cast<const std::byte*>(base) + bytes;
}

Result<std::vector<Segment>> by_destination(const Batch& batch, const Communicator& communicator) {
  const std::size_t element = size_of(batch.dtype);
  const auto size = static_cast<std::size_t>(communicator.size);
  const auto mine = static_cast<std::size_t>(communicator.rank);
  std::vector<Segment> parts;
  parts.reserve(batch.segments.size() * size);
  for (std::size_t i = 0; i < batch.segments.size(); ++i) {
    const Segment& segment = batch.segments[i];
    const std::size_t rows = segment.row_count == 0 ? 0 : segment.count / segment.row_count;
    for (std::size_t rank = 0; rank < size; ++rank) {
      const std::size_t begin = first_row_of(rows, size, rank) * segment.row_count;
      const std::size_t count = first_row_of(rows, size, rank + 1) * segment.row_count - begin;
      void* output = rank == mine ? segment.output : nullptr;
      if (rank == mine && output == nullptr) {
        const std::array<std::size_t, 1> counts{count};
        HVD_TRY_ASSIGN(output, batch.allocate(i, counts));
      }
      parts.push_back({advanced(segment.input, begin * element), output, count, segment.row_count});
    }
  }
  return parts;
}

}  // namespace

Result<Batch> as_allreduce(Batch batch, const Communicator& communicator) {
  if (const auto* reduce = std::get_if<Reduce>(&batch.operation)) {
    if (reduce->root != communicator.rank) {
      for (Segment& segment : batch.segments) segment.output = nullptr;
    }
  } else if (std::holds_alternative<Reducescatter>(batch.operation)) {
    HVD_TRY_ASSIGN(batch.segments, by_destination(batch, communicator));
  }
  batch.operation = reduction_of(batch.operation).value_or(Allreduce{});
  return batch;
}

}  // namespace hvd
