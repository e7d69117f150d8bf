// SPDX-License-Identifier: Apache-2.0
#include "backends/lanes/lane_transfer.h"

#include <algorithm>

#include "backends/lanes/broadcast_tree.h"
#include "base/rounding.h"

namespace hvd {
namespace {

class LaneTransfer : public Transfer, private FrameSink {
 public:
  LaneTransfer(NodePlane& plane, LaneSet& lanes, RootedPlan plan)
      : plane_(plane),
        lanes_(lanes),
        plan_(std::move(plan)),
        rounds_(plan_.bytes),
        base_(plane.next_round),
        transfer_(lanes.take_transfer()),
        shape_(shape_of(plan_, rounds_, lanes)) {
    plane_.next_round += rounds_.count();
    if (!lanes_.is_lane()) lane_ = rounds_.count();
    skip_foreign();
  }

  ~LaneTransfer() override {
    if (!is_done()) lanes_.forget();
  }

  Progress advance() override {
    if (is_done()) return Progress::kDone;
    bool moved = false;
    if (lanes_.is_lane()) {
      auto pumped = lanes_.pump(*this);
      if (!pumped.is_ok()) {
        status_ = pumped.status();
        return Progress::kFailed;
      }
      moved = pumped.value();
    }
    moved = try_lane() || moved;
    moved = try_copy_out() || moved;
    moved = try_copy_in() || moved;
    if (is_done()) return Progress::kDone;
    return moved ? Progress::kMoved : Progress::kBlocked;
  }
  const Status& status() const override { return status_; }

 private:
  /// The rounds that a lane has under way share the window of the slots.
  struct Window {
    std::size_t unsent = 0;
    bool arrived = false;
  };
  Window& window(std::uint64_t round) { return windows_[round % NodePlane::kSlots]; }

  static BroadcastShape shape_of(const RootedPlan& plan, const RootedRounds& rounds,
                                 const LaneSet& lanes) {
    const auto roots = std::count_if(plan.bytes.begin(), plan.bytes.end(),
                                     [](std::size_t bytes) { return bytes > 0; });
    if (roots != 1) return BroadcastShape::kFlat;
    return select_broadcast(lanes.node_count(), rounds.count(),
                            rounds.at(0).bytes / static_cast<std::size_t>(lanes.lanes()));
  }

  bool is_done() const { return out_ == rounds_.count() && lane_ == rounds_.count(); }
  bool is_here(const RootedRounds::Round& round) const {
    return lanes_.node_of(round.root) == lanes_.node();
  }
  std::size_t piece_begin(const RootedRounds::Round& round, int lane) const {
    const auto lanes = static_cast<std::size_t>(lanes_.lanes());
    const std::size_t piece = round_up(divide_up(round.bytes, lanes), std::size_t{64});
    return std::min(static_cast<std::size_t>(lane) * piece, round.bytes);
  }
  std::size_t piece_bytes(const RootedRounds::Round& round, int lane) const {
    return piece_begin(round, lane + 1) - piece_begin(round, lane);
  }

  /// The slot is lent to the sockets until my piece has left.
  bool has_sent(std::uint64_t round) { return lane_ > round && window(round).unsent == 0; }

  void skip_foreign() {
    while (in_ < rounds_.count() && rounds_.at(in_).root != lanes_.communicator().rank) ++in_;
  }

  bool try_copy_in() {
    if (in_ == rounds_.count() || !plane_.slot_is_free(base_ + in_)) return false;
    const RootedRounds::Round round = rounds_.at(in_);
    plan_.input.copy_to(plane_.slot(plane_.local_rank(), base_ + in_), round.offset, round.bytes);
    plane_.publish(NodePlane::kIn, base_ + in_ + 1);
    ++in_;
    skip_foreign();
    return true;
  }

  /// As a lane: sends my piece of the next round, or hands on the one that has arrived.
  bool try_lane() {
    if (lane_ == rounds_.count()) return false;
    const RootedRounds::Round round = rounds_.at(lane_);
    const int mine = plane_.local_rank();
    const std::size_t bytes = piece_bytes(round, mine);
    if (is_here(round)) {
      const int root = lanes_.local_rank_of(round.root);
      if (!plane_.has_reached(root, NodePlane::kIn, base_ + lane_ + 1)) return false;
      if (bytes > 0) send_on(round, plane_.slot(root, base_ + lane_));
    } else {
      if (bytes > 0 && !window(lane_).arrived) return false;
      window(lane_).arrived = false;
      if (bytes > 0) send_on(round, plane_.slot(mine, base_ + lane_));
      plane_.publish(NodePlane::kReduced, base_ + lane_ + 1);
    }
    ++lane_;
    return true;
  }

  /// My piece of what is in the slot, to those who get it from this node.
  void send_on(const RootedRounds::Round& round, const std::byte* slot) {
    const int mine = plane_.local_rank();
    const std::byte* const piece = slot + piece_begin(round, mine);
    for (const int node : broadcast_children(shape_, lanes_.node_count(),
                                             lanes_.node_of(round.root), lanes_.node())) {
      lanes_.queue(node, {.kind = FrameHeader::kBytes, .transfer = transfer_, .round = lane_},
                   {piece, piece_bytes(round, mine)}, &window(lane_).unsent);
    }
  }

  bool try_copy_out() {
    if (out_ == rounds_.count()) return false;
    const RootedRounds::Round round = rounds_.at(out_);
    const ByteStream& output = plan_.outputs[static_cast<std::size_t>(round.root)];
    if (is_here(round)) {
      const int root = lanes_.local_rank_of(round.root);
      if (!plane_.has_reached(root, NodePlane::kIn, base_ + out_ + 1)) return false;
      if (!has_sent(out_)) return false;
      if (round.root != lanes_.communicator().rank || !plan_.own_in_place) {
        output.copy_from(plane_.slot(root, base_ + out_), round.offset, round.bytes);
      }
    } else {
      for (int lane = 0; lane < lanes_.lanes(); ++lane) {
        if (piece_bytes(round, lane) == 0) continue;
        if (!plane_.has_reached(lane, NodePlane::kReduced, base_ + out_ + 1)) return false;
      }
      if (!has_sent(out_)) return false;
      for (int lane = 0; lane < lanes_.lanes(); ++lane) {
        const std::size_t begin = piece_begin(round, lane);
        output.copy_from(plane_.slot(lane, base_ + out_) + begin, round.offset + begin,
                         piece_bytes(round, lane));
      }
    }
    ++out_;
    plane_.publish(NodePlane::kOut, base_ + out_);
    return true;
  }

  Result<std::optional<std::byte*>> place(int node, const FrameHeader& header) override {
    if (header.transfer > transfer_) return std::optional<std::byte*>();
    if (header.transfer < transfer_ || header.round < lane_ || header.round >= rounds_.count()) {
      return error(Code::kInternal, "transfer {} round {} is under way", transfer_, lane_);
    }
    const RootedRounds::Round round = rounds_.at(header.round);
    const std::size_t bytes = piece_bytes(round, plane_.local_rank());
    const int root = lanes_.node_of(round.root);
    const bool is_due = root != lanes_.node() &&
                        broadcast_parent(shape_, lanes_.node_count(), root, lanes_.node()) == node;
    if (header.kind != FrameHeader::kBytes || !is_due || header.bytes != bytes) {
      return error(Code::kInternal, "{} bytes of rank {} are due", bytes, round.root);
    }
    if (!plane_.slot_is_free(base_ + header.round)) return std::optional<std::byte*>();
    return std::optional(plane_.slot(plane_.local_rank(), base_ + header.round) +
                         piece_begin(round, plane_.local_rank()));
  }

  void arrived(int /*node*/, const FrameHeader& header) override {
    window(header.round).arrived = true;
  }

  NodePlane& plane_;
  LaneSet& lanes_;
  RootedPlan plan_;
  RootedRounds rounds_;
  std::uint64_t base_;
  std::uint64_t transfer_;
  BroadcastShape shape_;
  std::uint64_t in_ = 0;    // the next round of which I am the root
  std::uint64_t lane_ = 0;  // rounds whose piece my lane has sent or handed on
  std::uint64_t out_ = 0;   // rounds that I have read
  std::array<Window, NodePlane::kSlots> windows_;
  Status status_;
};

}  // namespace

std::unique_ptr<Transfer> start_lane_transfer(NodePlane& plane, LaneSet& lanes, RootedPlan plan) {
  return std::make_unique<LaneTransfer>(plane, lanes, std::move(plan));
}

}  // namespace hvd
