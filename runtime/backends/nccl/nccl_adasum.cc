// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/nccl_adasum.h"

#include <algorithm>

#include "collective/adasum.h"

namespace hvd {
namespace {

using Round = NcclAdasum::Round;
using Slice = NcclAdasum::Slice;

constexpr std::size_t kSlot = next_slot(1);

Slice lower_half(const Slice& slice) {
  const std::size_t slots = (slice.end - slice.begin) / kSlot;
  return {slice.begin, slice.begin + (slots + 1) / 2 * kSlot};
}
Slice upper_half(const Slice& slice) { return {lower_half(slice).end, slice.end}; }

NcclStep transfer(NcclVerb verb, int peer, std::size_t offset, std::size_t bytes) {
  const NcclPlace place{NcclPlace::Where::kBucket, 0, offset};
  return {.verb = verb,
          .dtype = DataType::kUint8,
          .fold = NcclFold::kSum,
          .count = bytes,
          .peer = peer,
          .from = place,
          .to = place};
}
NcclStep send(int peer, const Slice& slice) {
  return transfer(NcclVerb::kSend, peer, slice.begin, slice.end - slice.begin);
}
NcclStep receive(int peer, const Slice& slice) {
  return transfer(NcclVerb::kRecv, peer, slice.begin, slice.end - slice.begin);
}

/// How many levels begin within nodes, for all ranks alike.
int levels_in_nodes(const AdasumSchedule& schedule, const Communicator& communicator) {
  std::vector<std::size_t> node_of(static_cast<std::size_t>(communicator.size));
  for (std::size_t node = 0; node < communicator.nodes.size(); ++node) {
    for (const int rank : communicator.nodes[node]) node_of[static_cast<std::size_t>(rank)] = node;
  }
  for (int doubling = 0; doubling < schedule.doublings(); ++doubling) {
    for (int rank = 0; rank < communicator.size; ++rank) {
      const int peer = schedule.doubling(doubling, rank).peer;
      if (peer < 0) continue;
      if (node_of[static_cast<std::size_t>(rank)] != node_of[static_cast<std::size_t>(peer)]) {
        return doubling;
      }
    }
  }
  return schedule.doublings();
}

/// Builds the rounds of one rank.
class Rounds {
 public:
  Rounds(NcclAdasum& adasum, const Communicator& communicator, std::size_t bytes,
         const NcclPlanOptions& options)
      : adasum_(adasum),
        schedule_(communicator.size),
        rank_(communicator.rank),
        whole_{0, bytes},
        mine_(whole_) {
    const int most = levels_in_nodes(schedule_, communicator);
    const std::size_t smallest = std::max(options.slice_bytes, kSlot);
    while (halvings_ < most && bytes >> (halvings_ + 1) >= smallest) ++halvings_;
  }

  /// Bytes that a peer's gradients take here, on any rank.
  std::size_t room() const {
    return halvings_ == 0 || schedule_.has_extra() ? whole_.end : lower_half(whole_).end;
  }

  void plan() {
    const int last = schedule_.levels() - 1;
    if (schedule_.has_extra()) meet_aside(schedule_.step(0, rank_));
    if (schedule_.doubling(0, rank_).peer >= 0) {
      for (int doubling = 0; doubling < schedule_.doublings(); ++doubling) meet(doubling);
      for (int doubling = halvings_ - 1; doubling >= 0; --doubling) gather(doubling);
    }
    if (schedule_.has_extra()) meet_aside(schedule_.step(last, rank_));
  }

 private:
  int peer_at(int doubling) const { return schedule_.doubling(doubling, rank_).peer; }
  Slice theirs() const { return {adasum_.theirs, adasum_.theirs + (mine_.end - mine_.begin)}; }
  Round& add_round() { return adasum_.rounds.emplace_back(); }

  /// Whole gradients, to a rank that combines, or back to one that stood aside.
  void meet_aside(const AdasumSchedule::Step& step) {
    if (step.peer < 0) return;
    Round& round = add_round();
    if (step.sends) round.steps.push_back(send(step.peer, whole_));
    if (step.receives) {
      round.steps.push_back(receive(step.peer, step.combines ? theirs() : whole_));
    }
    if (step.combines) round = measured(std::move(round), step.peer, true);
  }

  Round measured(Round round, int peer, bool is_whole) const {
    round.measures = true;
    round.blends = is_whole;
    round.is_lower = rank_ < peer;
    round.slice = mine_;
    return round;
  }

  void meet(int doubling) {
    const int peer = peer_at(doubling);
    Slice sent = mine_;
    if (doubling < halvings_) {
      halved_.push_back(mine_);
      const bool keeps_lower = rank_ < peer;
      sent = keeps_lower ? upper_half(mine_) : lower_half(mine_);
      mine_ = keeps_lower ? lower_half(mine_) : upper_half(mine_);
    }
    // Products of all slices are summed over the ranks that hold them.
    const int sums = std::min(doubling + 1, halvings_);
    Round round;
    round.steps = {send(peer, sent), receive(peer, theirs())};
    adasum_.rounds.push_back(measured(std::move(round), peer, sums == 0));
    for (int other = 0; other < sums; ++other) add_dots(other, peer, other + 1 == sums);
  }

  void add_dots(int doubling, int partner, bool is_last) {
    const std::size_t bytes = adasum_.scratch - adasum_.their_dots;
    const int peer = peer_at(doubling);
    Round& round = add_round();
    round.steps.push_back(send(peer, {adasum_.scratch, adasum_.scratch + bytes}));
    round.steps.push_back(receive(peer, {adasum_.their_dots, adasum_.scratch}));
    round.adds = true;
    round.blends = is_last;
    round.is_lower = rank_ < partner;
    round.slice = mine_;
  }

  void gather(int doubling) {
    const Slice both = halved_.back();
    halved_.pop_back();
    const int peer = peer_at(doubling);
    const Slice other = rank_ < peer ? upper_half(both) : lower_half(both);
    add_round().steps = {send(peer, mine_), receive(peer, other)};
    mine_ = both;
  }

  NcclAdasum& adasum_;
  const AdasumSchedule schedule_;
  const int rank_;
  const Slice whole_;
  Slice mine_;
  int halvings_ = 0;
  std::vector<Slice> halved_;  // what this rank and its peer shared, level by level
};

}  // namespace

std::vector<AdasumPair> pairs_of(const NcclAdasum& adasum, const Slice& slice) {
  std::vector<AdasumPair> pairs;
  pairs.reserve(adasum.pairs.size());
  const std::size_t element = size_of(adasum.dtype);
  for (const AdasumPair& pair : adasum.pairs) {
    const std::size_t begin = std::max(pair.offset, slice.begin);
    const std::size_t end = std::min(pair.offset + pair.count * element, slice.end);
    AdasumPair& part = pairs.emplace_back();
    if (begin < end) part = {begin - slice.begin, (end - begin) / element};
  }
  return pairs;
}

NcclPlan plan_nccl_adasum(const Batch& batch, const Communicator& communicator,
                          const NcclPlanOptions& options) {
  const auto& allreduce = std::get<Allreduce>(batch.operation);
  NcclPlan plan;
  NcclAdasum& adasum = plan.adasum;
  // Half types travel, and are combined, in float32.
  adasum.dtype = batch.dtype == DataType::kFloat64 ? DataType::kFloat64 : DataType::kFloat32;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < batch.segments.size(); ++i) {
    const std::size_t count = batch.segments[i].count;
    if (count == 0) continue;
    plan.packed.push_back({i, bytes, count});
    adasum.pairs.push_back({bytes, count});
    bytes = next_slot(bytes + count * size_of(adasum.dtype));
  }
  if (bytes == 0) return plan;
  plan.pack = {batch.dtype, adasum.dtype, allreduce.prescale};
  plan.unpack = {batch.dtype, adasum.dtype, allreduce.postscale};
  plan.unpacked = plan.packed;
  adasum.theirs = bytes;
  Rounds rounds(adasum, communicator, bytes, options);
  adasum.their_dots = adasum.theirs + rounds.room();
  adasum.scratch = adasum.their_dots + adasum.pairs.size() * sizeof(kernels::Dots);
  plan.bucket_bytes = adasum.scratch + adasum_scratch_bytes(adasum.pairs, adasum.dtype);
  rounds.plan();
  return plan;
}

}  // namespace hvd
