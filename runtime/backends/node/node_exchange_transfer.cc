// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <utility>

#include "backends/node/exchange.h"
#include "backends/node/exchange_rounds.h"

namespace hvd {
namespace {

/// Of what a rank keeps, the part that is copied while there is nothing to do for others.
constexpr std::size_t kSelfBytes = std::size_t{32} << 10;

/// The bytes that the busiest rank sends to others.
std::size_t most_sent(const ExchangePlan& plan) {
  std::size_t most = 0;
  for (std::size_t source = 0; source < plan.size; ++source) {
    const auto row = std::span(plan.bytes).subspan(source * plan.size, plan.size);
    most = std::max(most, std::accumulate(row.begin(), row.end(), std::size_t{0}) - row[source]);
  }
  return most;
}

/// In each round every rank copies its pieces for all others into its slot, side by side by
/// destination, and copies what is for it out of the others' slots.
class NodeExchange : public Transfer {
 public:
  NodeExchange(NodePlane& plane, ExchangePlan plan, ExchangeRounds rounds, std::vector<int> ranks)
      : plane_(plane),
        plan_(std::move(plan)),
        rounds_(std::move(rounds)),
        ranks_(std::move(ranks)),
        self_(plan_.inputs[me()], plan_.outputs[me()]),
        base_(plane.next_round) {
    plane_.next_round += rounds_.count();
  }

  Progress advance() override {
    if (is_done()) return Progress::kDone;
    if (!try_copy_out() && !try_copy_in() && !self_.advance()) return Progress::kBlocked;
    return is_done() ? Progress::kDone : Progress::kMoved;
  }
  const Status& status() const override { return status_; }

 private:
  std::size_t me() const { return static_cast<std::size_t>(plane_.local_rank()); }
  bool is_done() const { return out_ == rounds_.count() && self_.is_done(); }

  bool try_copy_in() {
    if (in_ == rounds_.count() || !plane_.slot_is_free(base_ + in_)) return false;
    std::byte* place = plane_.slot(plane_.local_rank(), base_ + in_);
    for (const int destination : ranks_) {
      const auto piece = rounds_.at(in_, plane_.local_rank(), destination);
      plan_.inputs[static_cast<std::size_t>(destination)].copy_to(place, piece.offset, piece.bytes);
      place += piece.bytes;
    }
    ++in_;
    plane_.publish(NodePlane::kIn, base_ + in_);
    return true;
  }

  bool try_copy_out() {
    // My own round counts too: its slot is not read before it is filled.
    if (out_ == in_) return false;
    const int mine = plane_.local_rank();
    for (const int source : ranks_) {
      if (rounds_.at(out_, source, mine).bytes == 0) continue;
      if (!plane_.has_reached(source, NodePlane::kIn, base_ + out_ + 1)) return false;
    }
    const auto before = std::span(ranks_).first(me());
    for (const int source : ranks_) {
      const auto piece = rounds_.at(out_, source, mine);
      if (piece.bytes == 0) continue;
      const std::size_t offset = rounds_.bytes_to(out_, source, before);
      plan_.outputs[static_cast<std::size_t>(source)].copy_from(
          plane_.slot(source, base_ + out_) + offset, piece.offset, piece.bytes);
    }
    ++out_;
    plane_.publish(NodePlane::kOut, base_ + out_);
    return true;
  }

  NodePlane& plane_;
  ExchangePlan plan_;
  ExchangeRounds rounds_;
  std::vector<int> ranks_;
  SelfCopy self_;
  std::uint64_t base_;
  std::uint64_t in_ = 0;
  std::uint64_t out_ = 0;
  Status status_;
};

}  // namespace

bool SelfCopy::advance() {
  if (is_done()) return false;
  const ByteStream::Range from = input_.at(done_);
  const std::size_t bytes = std::min(from.bytes, kSelfBytes);
  output_.copy_from(from.data, done_, bytes);
  done_ += bytes;
  return true;
}

Result<std::unique_ptr<Transfer>> start_node_exchange(NodePlane& plane, ExchangePlan plan) {
  ExchangeRounds rounds(plan.bytes, plan.size, 1, NodePlane::piece_bytes(most_sent(plan)));
  std::vector<int> ranks(plan.size);
  std::iota(ranks.begin(), ranks.end(), 0);
  for (const int source : ranks) {
    if (rounds.share_slot(std::array<int, 1>{source}, ranks)) continue;
    return error(Code::kUnsupported, "rank {} sends to more ranks of its node than one slot holds",
                 source);
  }
  return std::unique_ptr<Transfer>(
      std::make_unique<NodeExchange>(plane, std::move(plan), std::move(rounds), std::move(ranks)));
}

}  // namespace hvd
