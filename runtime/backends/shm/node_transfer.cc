// SPDX-License-Identifier: Apache-2.0
#include "backends/shm/rooted.h"

namespace hvd {
namespace {

/// The root of a round copies its bytes into its slot, everybody copies them out.
class NodeTransfer : public Transfer {
 public:
  NodeTransfer(NodePlane& plane, RootedPlan plan)
      : plane_(plane), plan_(std::move(plan)), rounds_(plan_.bytes), base_(plane.next_round) {
    plane_.next_round += rounds_.count();
    skip_foreign();
  }

  Progress advance() override {
    if (out_ == rounds_.count()) return Progress::kDone;
    if (!try_copy_in() && !try_copy_out()) return Progress::kBlocked;
    return out_ == rounds_.count() ? Progress::kDone : Progress::kMoved;
  }
  const Status& status() const override { return status_; }

 private:
  void skip_foreign() {
    while (in_ < rounds_.count() && rounds_.at(in_).root != plane_.local_rank()) ++in_;
  }

  bool try_copy_in() {
    if (in_ == rounds_.count() || !plane_.slot_is_free(base_ + in_)) return false;
    const RootedRounds::Round round = rounds_.at(in_);
    plan_.input.copy_to(plane_.slot(round.root, base_ + in_), round.offset, round.bytes);
    plane_.publish(NodePlane::kIn, base_ + in_ + 1);
    ++in_;
    skip_foreign();
    return true;
  }

  bool try_copy_out() {
    const RootedRounds::Round round = rounds_.at(out_);
    if (!plane_.has_reached(round.root, NodePlane::kIn, base_ + out_ + 1)) return false;
    if (round.root != plane_.local_rank() || !plan_.own_in_place) {
      const ByteStream& output = plan_.outputs[static_cast<std::size_t>(round.root)];
      output.copy_from(plane_.slot(round.root, base_ + out_), round.offset, round.bytes);
    }
    ++out_;
    plane_.publish(NodePlane::kOut, base_ + out_);
    return true;
  }

  NodePlane& plane_;
  RootedPlan plan_;
  RootedRounds rounds_;
  std::uint64_t base_;
  std::uint64_t in_ = 0;   // the next round of which I am the root
  std::uint64_t out_ = 0;  // rounds that I have read
  Status status_;
};

}  // namespace

std::unique_ptr<Transfer> start_node_transfer(NodePlane& plane, RootedPlan plan) {
  return std::make_unique<NodeTransfer>(plane, std::move(plan));
}

}  // namespace hvd
