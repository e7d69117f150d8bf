// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/lanes/lane_links.h"
#include "backends/node/node_plane.h"
#include "collective/backend.h"

namespace hvd {

/// Buffers of one round that a lane has under way; kept from task to task.
struct LaneRound {
  std::vector<std::byte> own;        ///< Room for the partial results of my node, the whole piece.
  std::vector<std::byte> theirs;     ///< Of the other nodes, as they arrive.
  std::vector<std::byte> result;     ///< Room for the finished elements of the whole piece.
  std::byte* partials = nullptr;     ///< In `own`, or in a tensor, which is then only read.
  std::byte* results = nullptr;      ///< In `result`, or in a tensor.
  std::vector<std::size_t> arrived;  ///< Frames, by step of the schedule.
  std::size_t step = 0;              ///< The one under way.
  std::size_t unsent = 0;
};

/// My way to the same lane on the other nodes, the buffers of its rounds, and where the ranks live.
/// Engine thread only.
class LaneSet {
 public:
  /// `links` may be null where this rank drives no lane.
  LaneSet(const BackendContext& context, std::unique_ptr<LaneLinks> links);

  ~LaneSet();
  LaneSet(const LaneSet&) = delete;
  LaneSet& operator=(const LaneSet&) = delete;

  const Communicator& communicator() const { return communicator_; }
  int lanes() const { return lanes_; }
  int node() const { return communicator_.node; }
  int node_count() const { return communicator_.node_count(); }
  /// True when this rank drives a lane.
  bool is_lane() const { return communicator_.local_rank < lanes_; }
  int node_of(int rank) const { return places_[static_cast<std::size_t>(rank)].node; }
  int local_rank_of(int rank) const { return places_[static_cast<std::size_t>(rank)].local_rank; }

  std::uint64_t take_transfer() { return transfers_++; }
  /// As those of LaneLinks; for ranks that drive a lane.
  Result<bool> pump(FrameSink& sink) { return links_->pump(sink); }
  void queue(int node, const FrameHeader& header, std::span<const std::byte> payload,
             std::size_t* unsent) {
    links_->queue(node, header, payload, unsent);
  }
  void forget() {
    if (links_ != nullptr) links_->forget();
  }

  bool takes_tensors() const { return links_ != nullptr && links_->takes_tensors(); }
  bool needs_polling() const { return links_ != nullptr && links_->needs_polling(); }
  bool keeps_memory() const { return links_ != nullptr && links_->keeps_memory(); }

  LaneRound& round(std::uint64_t number) { return rounds_[number % NodePlane::kSlots]; }

 private:
  struct Place {
    int node;
    int local_rank;
  };
  const Communicator& communicator_;
  int lanes_;
  std::unique_ptr<LaneLinks> links_;
  std::vector<Place> places_;            // by rank
  std::unique_ptr<LaneRound[]> rounds_;  ///< [NodePlane::kSlots]
  std::uint64_t transfers_ = 0;
};

}  // namespace hvd
