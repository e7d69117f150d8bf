// SPDX-License-Identifier: Apache-2.0
#include "backends/shm/zero_copy.h"

#include <algorithm>

#include "base/copy_bytes.h"
#include "base/rounding.h"

namespace hvd {
namespace {

/// Of each tensor: what is reduced stays in the first cache until it is in all outputs.
constexpr std::size_t kBlockBytes = std::size_t{8} << 10;
/// Of one call of advance().
constexpr std::size_t kChunkBytes = std::size_t{64} << 10;
/// Parts begin at cache lines of the stream.
constexpr std::size_t kLineBytes = 64;

}  // namespace

bool ZeroCopy::is_possible(const ArenaView& arena, const Batch& batch) {
  const auto* allreduce = std::get_if<Allreduce>(&batch.operation);
  if (allreduce == nullptr || allreduce->wire != Wire::kSame || arena.arena == nullptr ||
      batch.segments.size() * sizeof(Place) > NodePlane::kSlotBytes) {
    return false;
  }
  const std::size_t element = size_of(batch.dtype);
  return std::all_of(batch.segments.begin(), batch.segments.end(), [&](const Segment& segment) {
    const std::size_t bytes = segment.count * element;
    return bytes == 0 || (arena.arena->offset_of(segment.input, bytes) &&
                          arena.arena->offset_of(segment.output, bytes));
  });
}

ZeroCopy::ZeroCopy(NodePlane& plane, const ArenaView& arena, const Batch& batch,
                   const Reduction& reduction)
    : plane_(plane),
      arena_(arena),
      batch_(batch),
      reduction_(reduction),
      sources_(static_cast<std::size_t>(plane.local_size())) {
  std::size_t total = 0;
  for (const Segment& segment : batch.segments) {
    segment_begin_.push_back(total);
    total += segment.count;
  }
  segment_begin_.push_back(total);
  const std::size_t line = std::max<std::size_t>(1, kLineBytes / size_of(batch.dtype));
  const auto ranks = static_cast<std::size_t>(plane.local_size());
  const auto mine = static_cast<std::size_t>(plane.local_rank());
  const std::size_t part = round_up(divide_up(total, ranks), line);
  next_ = std::min(mine * part, total);
  end_ = std::min(next_ + part, total);
}

void ZeroCopy::announce(std::uint64_t round) {
  round_ = round;
  auto* places = reinterpret_cast<Place*>(plane_.slot(plane_.local_rank(), round));
  for (std::size_t i = 0; i < batch_.segments.size(); ++i) {
    const Segment& segment = batch_.segments[i];
    places[i] = {arena_.arena->offset_of(segment.input, 0).value_or(0),
                 arena_.arena->offset_of(segment.output, 0).value_or(0)};
  }
}

const ZeroCopy::Place& ZeroCopy::place_of(int rank, std::size_t segment) const {
  return reinterpret_cast<const Place*>(plane_.slot(rank, round_))[segment];
}

void ZeroCopy::reduce_chunk() {
  const std::size_t element = size_of(batch_.dtype);
  const std::size_t chunk_end = std::min(end_, next_ + kChunkBytes / element);
  while (next_ < chunk_end) {
    while (segment_begin_[segment_ + 1] <= next_) ++segment_;
    const std::size_t within = (next_ - segment_begin_[segment_]) * element;
    const std::size_t count =
        std::min({chunk_end, segment_begin_[segment_ + 1], next_ + kBlockBytes / element}) - next_;
    for (int rank = 0; rank < plane_.local_size(); ++rank) {
      sources_[static_cast<std::size_t>(rank)] =
          arena_.at(rank, place_of(rank, segment_).input + within);
    }
    const int mine = plane_.local_rank();
    std::byte* const result = arena_.at(mine, place_of(mine, segment_).output + within);
    reduce_into(reduction_, ReduceStage::kWhole, result, sources_, count);
    for (int rank = 0; rank < plane_.local_size(); ++rank) {
      if (rank == mine) continue;
      copy_bytes(arena_.at(rank, place_of(rank, segment_).output + within), result,
                 count * element);
    }
    next_ += count;
  }
}

Progress ZeroCopy::advance() {
  if (next_ < end_) {
    reduce_chunk();
    return Progress::kMoved;
  }
  const bool finishing = !finished_;
  if (finishing) {
    finished_ = true;
    plane_.publish(NodePlane::kOut, round_ + 1);
  }
  if (plane_.all_have_reached(NodePlane::kOut, round_ + 1)) return Progress::kDone;
  return finishing ? Progress::kMoved : Progress::kBlocked;
}

}  // namespace hvd
