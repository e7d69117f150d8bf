// SPDX-License-Identifier: Apache-2.0
#include "backends/lanes/lane_exchange.h"

#include <array>
#include <utility>
#include <vector>

#include "backends/node/exchange_rounds.h"

namespace hvd {
namespace {

using Ranks = std::vector<int>;

/// Who sends over which lane to whom: the same on every rank.
class LaneSchedule {
 public:
  LaneSchedule(const LaneSet& lanes, const ExchangePlan& plan)
      : nodes_(lanes.communicator().nodes),
        lanes_(lanes.lanes()),
        rounds_(plan.bytes, plan.size, 1) {
    for (const Ranks& node : nodes_) all_.insert(all_.end(), node.begin(), node.end());
  }

  Status prepare() {
    for (const int rank : all_) {
      if (!rounds_.share_slot(std::array<int, 1>{rank}, all_)) return too_many();
    }
    for (std::size_t node = 0; node < nodes_.size(); ++node) {
      for (int lane = 0; lane < lanes_; ++lane) {
        Ranks senders;
        for (std::size_t from = 0; from < nodes_.size(); ++from) {
          if (from == node) continue;
          for (const int rank : served(from, lane)) senders.push_back(rank);
        }
        if (!rounds_.share_slot(senders, nodes_[node])) return too_many();
      }
    }
    return Status::ok();
  }

  const ExchangeRounds& rounds() const { return rounds_; }
  const Ranks& all() const { return all_; }  ///< In the order in which they lie in a slot.
  std::size_t node_count() const { return nodes_.size(); }
  const Ranks& node(std::size_t node) const { return nodes_[node]; }

  /// The ranks of a node whose bytes travel over `lane`, in the order of their frames.
  Ranks served(std::size_t node, int lane) const {
    Ranks ranks;
    for (std::size_t local = static_cast<std::size_t>(lane); local < nodes_[node].size();
         local += static_cast<std::size_t>(lanes_)) {
      ranks.push_back(nodes_[node][local]);
    }
    return ranks;
  }
  /// Where the bytes of `source` for the ranks from `destination` on begin in its slot.
  std::size_t offset_of(std::uint64_t round, int source, int destination) const {
    std::size_t offset = 0;
    for (const int rank : all_) {
      if (rank == destination) break;
      offset += rounds_.at(round, source, rank).bytes;
    }
    return offset;
  }
  /// Where the frame of `source` begins in the slot of `lane` at `node`.
  std::size_t arrival_of(std::uint64_t round, int source, int lane, std::size_t node) const {
    std::size_t offset = 0;
    for (std::size_t from = 0; from < nodes_.size(); ++from) {
      if (from == node) continue;
      for (const int rank : served(from, lane)) {
        if (rank == source) return offset;
        offset += rounds_.bytes_to(round, rank, nodes_[node]);
      }
    }
    return offset;
  }

 private:
  Status too_many() const {
    return error(Code::kUnsupported,
                 "an exchange among {} ranks on {} nodes has more parts than a slot of shared "
                 "memory holds; exchange within smaller process sets",
                 all_.size(), nodes_.size());
  }

  const std::vector<Ranks>& nodes_;
  int lanes_;
  Ranks all_;
  ExchangeRounds rounds_;
};

class LaneExchange : public Transfer, private FrameSink {
 public:
  LaneExchange(NodePlane& plane, LaneSet& lanes, ExchangePlan plan, LaneSchedule schedule)
      : plane_(plane),
        lanes_(lanes),
        plan_(std::move(plan)),
        schedule_(std::move(schedule)),
        node_(static_cast<std::size_t>(lanes.node())),
        rank_(lanes.communicator().rank),
        self_(plan_.inputs[static_cast<std::size_t>(rank_)],
              plan_.outputs[static_cast<std::size_t>(rank_)]),
        base_(plane.next_round),
        transfer_(lanes.take_transfer()) {
    plane_.next_round += 2 * rounds();
    if (lanes_.is_lane()) {
      served_ = schedule_.served(node_, plane_.local_rank());
    } else {
      sent_ = arrived_ = rounds();
    }
  }

  ~LaneExchange() override {
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
    moved = try_send() || moved;
    moved = try_hand_on() || moved;
    moved = try_copy_out() || moved;
    moved = try_copy_in() || moved;
    moved = moved || self_.advance();
    if (is_done()) return Progress::kDone;
    return moved ? Progress::kMoved : Progress::kBlocked;
  }
  const Status& status() const override { return status_; }

 private:
  /// The rounds that a lane has under way: two, for each takes two of the four slots.
  struct Window {
    std::size_t unsent = 0;
    std::size_t arrived = 0;  // frames
  };
  Window& window(std::uint64_t round) { return windows_[round % windows_.size()]; }

  std::uint64_t rounds() const { return schedule_.rounds().count(); }
  std::uint64_t slot_out(std::uint64_t round) const { return base_ + 2 * round; }
  std::uint64_t slot_in(std::uint64_t round) const { return base_ + 2 * round + 1; }
  bool is_done() const {
    return out_ == rounds() && sent_ == rounds() && arrived_ == rounds() && self_.is_done();
  }

  bool try_copy_in() {
    if (in_ == rounds() || !plane_.slot_is_free(slot_out(in_))) return false;
    std::byte* place = plane_.slot(plane_.local_rank(), slot_out(in_));
    for (const int destination : schedule_.all()) {
      const auto piece = schedule_.rounds().at(in_, rank_, destination);
      plan_.inputs[static_cast<std::size_t>(destination)].copy_to(place, piece.offset, piece.bytes);
      place += piece.bytes;
    }
    plane_.publish(NodePlane::kIn, slot_out(in_) + 1);
    ++in_;
    return true;
  }

  /// As a lane: sends what the ranks that I serve have put down for other nodes.
  bool try_send() {
    if (sent_ == rounds()) return false;
    for (const int source : served_) {
      if (!plane_.has_reached(lanes_.local_rank_of(source), NodePlane::kIn, slot_out(sent_) + 1)) {
        return false;
      }
    }
    for (const int source : served_) {
      const std::byte* slot = plane_.slot(lanes_.local_rank_of(source), slot_out(sent_));
      for (std::size_t to = 0; to < schedule_.node_count(); ++to) {
        const std::size_t bytes = schedule_.rounds().bytes_to(sent_, source, schedule_.node(to));
        if (to == node_ || bytes == 0) continue;
        const std::byte* begin =
            slot + schedule_.offset_of(sent_, source, schedule_.node(to).front());
        lanes_.queue(static_cast<int>(to),
                     {.kind = FrameHeader::kExchange,
                      .transfer = transfer_,
                      .round = sent_ * plan_.size + static_cast<std::size_t>(source)},
                     {begin, bytes}, &window(sent_).unsent);
      }
    }
    ++sent_;
    return true;
  }

  std::size_t frames_due(std::uint64_t round) const {
    std::size_t frames = 0;
    for (std::size_t from = 0; from < schedule_.node_count(); ++from) {
      if (from == node_) continue;
      for (const int source : schedule_.served(from, plane_.local_rank())) {
        frames += schedule_.rounds().bytes_to(round, source, schedule_.node(node_)) > 0 ? 1 : 0;
      }
    }
    return frames;
  }

  /// As a lane: tells my node that all frames of the next round are in my slot.
  bool try_hand_on() {
    if (arrived_ == rounds() || window(arrived_).arrived < frames_due(arrived_)) return false;
    window(arrived_).arrived = 0;
    plane_.publish(NodePlane::kReduced, slot_in(arrived_) + 1);
    ++arrived_;
    return true;
  }

  bool may_copy_out() {
    // The slots are lent to the links until my part of the round is over.
    if (out_ == in_) return false;
    if (lanes_.is_lane() && (sent_ <= out_ || arrived_ <= out_ || window(out_).unsent > 0)) {
      return false;
    }
    for (const int source : schedule_.all()) {
      if (schedule_.rounds().at(out_, source, rank_).bytes == 0) continue;
      const bool here = lanes_.node_of(source) == lanes_.node();
      const int local = lanes_.local_rank_of(source);
      const bool reached =
          here ? plane_.has_reached(local, NodePlane::kIn, slot_out(out_) + 1)
               : plane_.has_reached(local % lanes_.lanes(), NodePlane::kReduced, slot_in(out_) + 1);
      if (!reached) return false;
    }
    return true;
  }

  bool try_copy_out() {
    if (out_ == rounds() || !may_copy_out()) return false;
    for (const int source : schedule_.node(node_)) {
      take(source, plane_.slot(lanes_.local_rank_of(source), slot_out(out_)) +
                       schedule_.offset_of(out_, source, rank_));
    }
    for (int lane = 0; lane < lanes_.lanes(); ++lane) take_from_lane(lane);
    ++out_;
    plane_.publish(NodePlane::kOut, slot_out(out_));
    return true;
  }

  /// Copies the piece of `source` for me in this round.
  void take(int source, const std::byte* place) {
    const auto piece = schedule_.rounds().at(out_, source, rank_);
    if (piece.bytes == 0) return;
    plan_.outputs[static_cast<std::size_t>(source)].copy_from(place, piece.offset, piece.bytes);
  }

  void take_from_lane(int lane) {
    const std::byte* place = plane_.slot(lane, slot_in(out_));
    for (std::size_t from = 0; from < schedule_.node_count(); ++from) {
      if (from == node_) continue;
      for (const int source : schedule_.served(from, lane)) {
        for (const int rank : schedule_.node(node_)) {
          if (rank == rank_) take(source, place);
          place += schedule_.rounds().at(out_, source, rank).bytes;
        }
      }
    }
  }

  Result<std::optional<std::byte*>> place(int node, const FrameHeader& header) override {
    if (header.transfer > transfer_) return std::optional<std::byte*>();
    const std::uint64_t round = header.round / plan_.size;
    const auto source = static_cast<int>(header.round % plan_.size);
    if (header.transfer < transfer_ || round < arrived_ || round >= rounds() ||
        header.kind != FrameHeader::kExchange || lanes_.node_of(source) != node ||
        lanes_.local_rank_of(source) % lanes_.lanes() != plane_.local_rank() ||
        header.bytes != schedule_.rounds().bytes_to(round, source, schedule_.node(node_))) {
      return error(Code::kInternal, "round {} of the exchange in transfer {} is under way",
                   arrived_, transfer_);
    }
    if (!plane_.slot_is_free(slot_in(round))) return std::optional<std::byte*>();
    return std::optional(plane_.slot(plane_.local_rank(), slot_in(round)) +
                         schedule_.arrival_of(round, source, plane_.local_rank(), node_));
  }

  void arrived(int /*node*/, const FrameHeader& header) override {
    ++window(header.round / plan_.size).arrived;
  }

  NodePlane& plane_;
  LaneSet& lanes_;
  ExchangePlan plan_;
  LaneSchedule schedule_;
  std::size_t node_;
  int rank_;
  SelfCopy self_;
  std::uint64_t base_;
  std::uint64_t transfer_;
  Ranks served_;               // the ranks whose bytes my lane sends
  std::uint64_t in_ = 0;       // rounds that I have put down
  std::uint64_t sent_ = 0;     // ... that my lane has queued
  std::uint64_t arrived_ = 0;  // ... whose frames have come
  std::uint64_t out_ = 0;      // ... that I have read
  std::array<Window, NodePlane::kSlots / 2> windows_;
  Status status_;
};

}  // namespace

Result<std::unique_ptr<Transfer>> start_lane_exchange(NodePlane& plane, LaneSet& lanes,
                                                      ExchangePlan plan) {
  LaneSchedule schedule(lanes, plan);
  HVD_TRY(schedule.prepare());
  return std::unique_ptr<Transfer>(
      std::make_unique<LaneExchange>(plane, lanes, std::move(plan), std::move(schedule)));
}

}  // namespace hvd
