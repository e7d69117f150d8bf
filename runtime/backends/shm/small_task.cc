// SPDX-License-Identifier: Apache-2.0
#include "backends/shm/small_task.h"

#include <array>
#include <vector>

#include "base/copy_bytes.h"
#include "collective/wire_cast.h"

namespace hvd {
namespace {

class SmallTask : public Task {
 public:
  SmallTask(NodePlane& plane, Batch&& batch, const Reduction& reduction)
      : plane_(plane),
        batch_(std::move(batch)),
        reduction_(reduction),
        cast_(WireCast::of_operation(batch_.operation, batch_.dtype)),
        ticket_(plane.take_ticket()) {}

  ~SmallTask() override {
    if (!finished_) plane_.abandon();
  }

  Progress advance() override {
    if (!plane_.is_at_head(ticket_)) return Progress::kBlocked;
    const bool publishing = number_ == 0;
    if (publishing) publish();
    if (!plane_.all_have_small(number_)) {
      return publishing ? Progress::kMoved : Progress::kBlocked;
    }
    reduce();
    finished_ = true;
    plane_.finish(ticket_);
    return Progress::kDone;
  }
  const Status& status() const override { return status_; }

 private:
  void publish() {
    number_ = plane_.next_small++;
    const std::size_t element = reduction_.element_bytes();
    std::byte* place = plane_.small(plane_.local_rank(), number_);
    for (const Segment& segment : batch_.segments) {
      const std::size_t bytes = segment.count * element;
      if (cast_.is_cast()) {
        cast_.narrow(place, segment.input, segment.count);
      } else if (bytes > 0) {
        copy_bytes(place, segment.input, bytes);
      }
      place += bytes;
    }
    plane_.publish_small(number_);
  }

  void reduce() {
    const std::size_t element = reduction_.element_bytes();
    std::vector<const void*> sources(static_cast<std::size_t>(plane_.local_size()));
    std::size_t offset = 0;
    for (const Segment& segment : batch_.segments) {
      if (segment.count == 0) continue;
      if (segment.output == nullptr) {  // nowhere
        offset += segment.count * element;
        continue;
      }
      for (int rank = 0; rank < plane_.local_size(); ++rank) {
        sources[static_cast<std::size_t>(rank)] = plane_.small(rank, number_) + offset;
      }
      reduce_segment(segment, sources);
      offset += segment.count * element;
    }
  }

  void reduce_segment(const Segment& segment, std::span<const void* const> sources) const {
    if (!cast_.is_cast()) {
      reduce_into(reduction_, ReduceStage::kWhole, segment.output, sources, segment.count);
      return;
    }
    std::array<std::byte, NodePlane::kSmallBytes> wire;
    reduce_into(reduction_, ReduceStage::kWhole, wire.data(), sources, segment.count);
    cast_.widen(segment.output, wire.data(), segment.count);
  }

  NodePlane& plane_;
  Batch batch_;
  Reduction reduction_;
  WireCast cast_;
  std::uint64_t ticket_;
  std::uint64_t number_ = 0;
  bool finished_ = false;
  Status status_;
};

}  // namespace

std::unique_ptr<Task> make_small_task(NodePlane& plane, Batch&& batch, const Reduction& reduction) {
  return std::make_unique<SmallTask>(plane, std::move(batch), reduction);
}

}  // namespace hvd
